"""The statements of the binlog, each executed at the target exactly once: values that pass from step to step.

::

    BinlogStatement       everything before it is applied
      │ read              statement_reader     its text, and its session in terms that hold at the target
    QueryEvent
      │ filter            parts                parts about migrated tables, ghost tables replayed, event filters
      │ order             ordered_statements   what operators gave in place of it, recorded
    OrderedParts
      │ route             routed_steps         text and tables at the target
    RoutedPart …
      │ decide            statement_decisions  which of them are due now, and which wait for other shards
    RoutedPart …
      │ execute           executor             once, proven across crashes, recorded
      │ follow            structure_follower   the known structures; merged shards learn what ran
    StatementEffect       what may have changed

``barrier`` drives a statement through the steps. What waits for other shards comes back as a ``SettleDDL`` when the DDL
lock has decided, and is executed by ``settled_statements``.
"""
