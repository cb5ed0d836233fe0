"""Who asks, what that one may, and how often."""

from __future__ import annotations

import time
from collections.abc import Mapping

from scrout.base import ConfigError
from scrout.config.settings import Action, ApiSettings, Caller
from scrout.server.access import bearer, is_loopback, read_token, same
from scrout.server.api.problems import RequestRefused

LOCAL = Caller(name="local", token_env="-")
"""Everybody on this machine, where no caller is named: it may do nothing that costs."""


class Callers:
    def __init__(self, settings: ApiSettings) -> None:
        tokens = [read_token(one.token_env, f"api caller {one.name!r}") for one in settings.callers]
        if len(set(tokens)) < len(tokens):
            raise ConfigError("two callers of the API have the same token. Give each one of its own.")
        self.tokens = tuple(tokens)
        """Secrets that no rule would find."""
        self._known = tuple(zip(tokens, settings.callers, strict=True))
        self._quotas = {one.name: Quota(one.requests_a_minute) for one in settings.callers or (LOCAL,)}

    @property
    def named(self) -> bool:
        """False: nobody needs a token, and only this machine may ask."""
        return bool(self._known)

    def of(self, headers: Mapping[str, str]) -> Caller | None:
        """Who carries this token; None: nobody does."""
        if not self.named:
            return LOCAL
        given = bearer(headers)
        # All are compared, so that the time it takes does not tell which is near.
        found = [caller for token, caller in self._known if same(given, token)]
        return found[0] if found else None

    def wait_s(self, caller: Caller) -> float:
        """Counts a request; how long the caller has to wait before one more is answered. 0: it need not."""
        return self._quotas[caller.name].take()


def must_be_allowed(caller: Caller, action: Action) -> None:
    """A Refused that says how to allow it, unless the caller may."""
    if action in caller.may:
        return
    if caller is LOCAL:
        how = f"nobody is named who may {action}: add a caller with {action!r} in its `may` under [[api.callers]]"
    else:
        how = f"caller {caller.name!r} may not {action}: add {action!r} to its `may`"
    raise RequestRefused(403, "Not allowed", f"{how} in the server's scrout.toml.")


class Quota:
    """So many requests a minute, which may come in a tenth of it."""

    def __init__(self, a_minute: int) -> None:
        self._rate = a_minute / 60
        self._most = max(1.0, a_minute / 10)
        self._left = self._most
        self._at = time.monotonic()

    def take(self) -> float:
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


def refuse_open(host: str, settings: ApiSettings) -> None:
    """An address that others reach needs callers with tokens."""
    if not settings.callers and not is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached by others, who would run commands of your repositories. Name who may, with "
            "a token each, under [[api.callers]] in scrout.toml."
        )
