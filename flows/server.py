"""Whether the Prefect server that PREFECT_API_URL names is there, asked before a flow begins.

Prefect itself says so in a hundred lines.
"""

from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from dealwright.addresses import without_password
from dealwright.errors import DealwrightError, first_line

ANSWER_SECONDS = 5


class ServerError(DealwrightError):
    """The Prefect server cannot be used; the message says where it was looked for."""


def require_server() -> None:
    """Raise ServerError where PREFECT_API_URL names a server that does not answer."""
    address = PREFECT_API_URL.value()
    if address is None:  # Prefect runs a temporary one
        return
    with (
        temporary_settings({PREFECT_API_REQUEST_TIMEOUT: ANSWER_SECONDS, PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True) as client,
    ):
        trouble = client.api_healthcheck()
    if trouble is not None:
        raise ServerError(
            f"no Prefect server answers at {without_password(address)} ({first_line(trouble)}); start one with "
            "`make ui`, name another in PREFECT_API_URL, or unset it for a temporary one"
        )
