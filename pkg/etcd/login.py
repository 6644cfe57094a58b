"""Logs in to etcd with a password, which may change while the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc

from pkg.errors import DMError
from pkg.etcd.errors import failure_of
from pkg.settings.etcd_user import EtcdUser


class Login:
    """The user of one client, for all its endpoints.

    The password in the file comes first, then the last one that etcd accepted: while the password is changed, the file
    and etcd may differ for a moment.
    """

    def __init__(self, user: EtcdUser) -> None:
        self._user = user
        self._accepted = ""

    def token(self, authenticate: Callable[[str, str], str]) -> str | None:
        """A new token; None if etcd requires no passwords. ``authenticate`` takes name and password.

        Raises what ``authenticate`` raises for the last password, or 20018 for a file without one.
        """
        refusal: grpc.RpcError | None = None
        for password in self._passwords():
            try:
                token = authenticate(self._user.name, password)
            except grpc.RpcError as exc:
                failure = failure_of(exc)
                if failure.no_passwords:
                    return None
                if not failure.unauthorized:
                    raise
                refusal = refusal or exc
                continue
            self._accepted = password
            return token
        assert refusal is not None, "there is always a password to try"
        raise refusal

    def _passwords(self) -> Iterator[str]:
        tried = ""
        try:
            tried = self._user.password()
            yield tried
        except DMError:
            # The file is being replaced.
            if not self._accepted:
                raise
        if self._accepted and self._accepted != tried:
            yield self._accepted
