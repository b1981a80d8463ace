"""Serve the deployments `reproduce` and `retrain` from this machine, one run at a time over both.

`python -m flows.serve` waits for runs that the Prefect UI, `prefect deployment run` or the schedule starts. A second
run waits until the first has ended. The one slot is this process's own, so it is free as soon as a run's process is
gone, however that ended. Cancelling a run ends its process, which ends the stage and all that the stage started.
"""

import asyncio
import signal
import time
import urllib.request

from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType

from dealwright.cli.ui import HOST, PREFECT_PORT, START_SECONDS
from dealwright.errors import DealwrightError, run_main
from dealwright.params import Retrain, load_params
from flows.reproduce import reproduce
from flows.retrain import retrain


def main() -> None:
    """Serve until Ctrl-C or SIGTERM, which also cancels the run that is going on."""
    params = load_params()
    address = PREFECT_API_URL.value() or f"http://{HOST}:{PREFECT_PORT}/api"
    await_server(address)
    with temporary_settings({PREFECT_API_URL: address}):
        runner = Runner(limit=1)
        for deployment in deployments(params.retrain):
            runner.add_deployment(deployment)
            print(f"  {deployment.full_name}", flush=True)
        asyncio.run(run(runner))


async def run(runner: Runner) -> None:
    """Run the runner until a signal; then cancel what it runs, which its own answer to signals would leave behind."""
    running = asyncio.ensure_future(runner.start())
    await asyncio.sleep(0)  # it has set its own answer by now
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: asyncio.ensure_future(runner.astop()))
    await running


def deployments(params: Retrain) -> list[RunnerDeployment]:
    """Return the two deployments; the form of `retrain` shows the minimum gain of params.yaml."""
    module = EntrypointType.MODULE_PATH
    return [
        RunnerDeployment.from_flow(reproduce, "reproduce", entrypoint_type=module),
        RunnerDeployment.from_flow(
            retrain,
            "retrain",
            cron=params.cron,
            parameters={"minimum_gain": params.minimum_gain},
            entrypoint_type=module,
        ),
    ]


def await_server(address: str) -> None:
    """Wait for a Prefect server; without one Prefect would start its own, which nobody sees."""
    deadline = time.monotonic() + START_SECONDS
    print(f"serving one run at a time for the Prefect server at {address}", flush=True)
    told = False
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=10):
                return
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                raise DealwrightError(
                    f"no Prefect server answers at {address} ({error}); start one with `make ui`, or name another in "
                    "PREFECT_API_URL"
                ) from error
            if not told:
                print(f"  no answer yet ({error}); `make ui` starts one", flush=True)
                told = True
            time.sleep(1)


if __name__ == "__main__":
    run_main(main)
