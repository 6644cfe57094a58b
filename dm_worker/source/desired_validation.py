"""The desired stages of a source's validators in etcd."""

from __future__ import annotations

from collections.abc import Callable

from pkg.config.model import SubTaskConfig
from pkg.etcd import EtcdClient, PrefixMirror
from pkg.ha import keys
from pkg.ha.records import ValidatorStage


class DesiredValidation:
    """``changed`` is called after each change, ``on_broken`` as in :class:`PrefixMirror`."""

    def __init__(
        self,
        client: EtcdClient,
        source_id: str,
        changed: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self._source = source_id
        self._mirror = PrefixMirror(
            client, keys.VALIDATOR_STAGE.prefix(source_id), lambda _: changed(), on_error=on_broken
        )

    def start(self) -> None:
        self._mirror.start()

    def stop(self) -> None:
        self._mirror.stop()

    def wait_synced(self, timeout: float) -> bool:
        return self._mirror.wait_synced(timeout)

    def mode(self, config: SubTaskConfig) -> str | None:
        """``fast`` or ``full`` for a validator that is to run, '' for one that is to stop; None when the task never had
        one. Raises 42502."""
        stored = self._mirror.snapshot().get(keys.VALIDATOR_STAGE.key(self._source, config.name))
        if stored is None:
            return None if config.validator.mode == "none" else config.validator.mode
        record = ValidatorStage.from_json(stored.value)
        return record.mode if record.expect == "Running" else ""

    def since(self, config: SubTaskConfig) -> str:
        """The position of a start by time, '' without one. Raises 42502."""
        stored = self._mirror.snapshot().get(keys.VALIDATOR_STAGE.key(self._source, config.name))
        return "" if stored is None else ValidatorStage.from_json(stored.value).since
