"""A shop made with Django: migrations as a project gathers them, and the statements of its ORM.

``python -m tests.integration.orm.shop PORT migrate …`` runs a command of Django against the server at the port.
"""
