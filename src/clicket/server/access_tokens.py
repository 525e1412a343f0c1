"""Authenticates requests with access tokens of the authorization server that the settings name."""

from __future__ import annotations

import logging
from collections.abc import Callable

from clicket import system
from clicket.safety.oauth.refusals import IssuerUnavailable, TokenRefused
from clicket.safety.oauth.resource_server import AccessToken, ResourceServer
from clicket.server.challenges import Challenges
from clicket.server.problems import Refused

__all__ = ["AccessTokens"]

logger = logging.getLogger("clicket.server")
_LOG_EVERY = 10.0


class AccessTokens:
    def __init__(
        self, resource_server: ResourceServer, challenges: Challenges, *, clock: Callable[[], float] = system.monotonic
    ) -> None:
        self._resource_server = resource_server
        self._challenges = challenges
        self._clock = clock
        self._logged_at = float("-inf")

    async def accept(self, token: str, path: str) -> AccessToken:
        """A valid token with a scope of ours; raises `Refused`."""
        try:
            accepted = await self._resource_server.validate(token, self._challenges.audiences(path))
        except TokenRefused as error:
            raise Refused("unauthorized", error.message, challenge="invalid_token") from None
        except IssuerUnavailable as error:
            if self._clock() - self._logged_at >= _LOG_EVERY:  # each request would say the same
                self._logged_at = self._clock()
                logger.warning("access tokens cannot be checked: %s", error.message)
            text = "the authorization server cannot be asked about the token now; this server's log says why. Try again in a moment."
            raise Refused("issuer_unavailable", text) from None
        if not accepted.scopes:
            text = (
                "none of the token's scopes allows anything here. Ask for those of the protected resource's metadata."
            )
            raise Refused("missing_scope", text, challenge="insufficient_scope")
        return accepted

    async def close(self) -> None:
        await self._resource_server.close()
