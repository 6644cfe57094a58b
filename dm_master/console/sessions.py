"""Sessions of logged-in users, and the limit on guessing passwords. Pure: the caller passes the time."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: A session ends after this many seconds without a request, and after this many seconds in total.
IDLE, LONGEST = 3600.0, 12 * 3600.0
#: The most sessions; the least recently used one ends first.
MOST_SESSIONS = 1000
#: Failures that cost nothing; then the wait doubles from a second up to this, for an address and for a user's name. The
#: second is short: whoever guesses must not lock the user out.
FREE_FAILURES, LONGEST_ADDRESS_WAIT, LONGEST_USER_WAIT = 5, 900.0, 30.0
#: After this many seconds without a failure, counting starts again at zero.
FORGET = 3600.0
MOST_WATCHED = 10_000


@dataclass(slots=True)
class ConsoleSession:
    user: str
    token: str
    began: float
    used: float


class Sessions:
    """``secret`` makes the ids and tokens: random text that nobody can guess."""

    def __init__(self, secret: Callable[[], str]) -> None:
        self._secret = secret
        self._sessions: OrderedDict[str, ConsoleSession] = OrderedDict()

    def create(self, user: str, now: float) -> str:
        """The new session's id, for the cookie."""
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)
        key = self._secret()
        self._sessions[key] = ConsoleSession(user, self._secret(), now, now)
        return key

    def find(self, key: str, now: float) -> ConsoleSession | None:
        session = self._sessions.get(key)
        if session is None:
            return None
        if now - session.used > IDLE or now - session.began > LONGEST:
            del self._sessions[key]
            return None
        session.used = now
        self._sessions.move_to_end(key)
        return session

    def end(self, key: str) -> None:
        self._sessions.pop(key, None)


def token_matches(given: str, expected: str) -> bool:
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())


class LoginBrake:
    """Slows down guessing: by the client's address and by the user's name."""

    def __init__(self) -> None:
        self._addresses = _Failures(LONGEST_ADDRESS_WAIT)
        self._users = _Failures(LONGEST_USER_WAIT)

    def wait(self, address: str, user: str, now: float) -> float:
        """Seconds before another login is accepted; 0: immediately."""
        return max(self._addresses.wait(address, now), self._users.wait(user, now))

    def fail(self, address: str, user: str, now: float) -> None:
        self._addresses.add(address, now)
        self._users.add(user, now)

    def succeed(self, address: str, user: str) -> None:
        self._addresses.forget(address)
        self._users.forget(user)


class _Failures:
    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._found: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, key: str, now: float) -> None:
        count, last = self._found.pop(key, (0, now))
        self._found[key] = (count + 1 if now - last < FORGET else 1, now)
        while len(self._found) > MOST_WATCHED:
            self._found.popitem(last=False)

    def forget(self, key: str) -> None:
        self._found.pop(key, None)

    def wait(self, key: str, now: float) -> float:
        count, last = self._found.get(key, (0, 0.0))
        if count < FREE_FAILURES or now - last >= FORGET:
            return 0.0
        pause = min(self._longest, 2.0 ** min(count - FREE_FAILURES, 20))
        return max(0.0, last + pause - now)
