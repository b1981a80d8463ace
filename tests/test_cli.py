"""The command line: quick to load, one line an error, and a game for a person."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.cli.table import Person, offers_line
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Product, Role, Scenario, StopReason
from dealwright.params import load_params
from dealwright.profiles import set_params

ROOT = Path(__file__).parents[1]
HEAVY = (
    "torch",
    "transformers",
    "mlflow",
    "prefect",
    "dvc",
    "polars",
    "pandas",
    "huggingface_hub",
    "great_expectations",
)
COMMANDS = (
    *("check", "profile", "plan", "results", "transcripts", "play", "rollout"),
    *("register", "checkpoints", "promote", "rollback", "fetch-model", "ui"),
)
LAMP = Product("p1", "Desk \x1b[31mlamp", "Home & Kitchen", "A lamp.\nIt is bright.", 100.0, 40.0, 100.0)

KETTLES = "catalogue: 20 products (16 train, 1 validation, 3 test), 0 set aside\n"


def scenario() -> Scenario:
    return Scenario("s1", LAMP, list_price=100.0, cost=40.0, budget=80.0, seed=7, split="test")


def run(*arguments: str, typed: Sequence[str] = ()) -> Result:
    return CliRunner().invoke(main, list(arguments), input="".join(f"{line}\n" for line in typed))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with parameters, profiles, a catalogue of 20 products and an empty model, all committed."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "data/catalogue").mkdir(parents=True)
    rows = [{"title": f"Kettle {number}", "list_price": 10, "lowest_price": 5} for number in range(20)]
    (tmp_path / "data/catalogue/things.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "data/base").mkdir()
    (tmp_path / "data/base/config.json").write_text("{}")
    run("profile", "tiny")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "params.yaml"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    return tmp_path


@pytest.fixture
def tables(project: Path) -> Path:
    """Enter a project that has made its scenarios."""
    import polars as pl

    from dealwright.catalogue.scenarios import SCHEMA
    from dealwright.files import write_parquet

    columns = ("id", "title", "category", "description", "list_price", "lowest_price", "highest_price")
    row = (LAMP.id, "Desk lamp", LAMP.category, LAMP.description, 100.0, 40.0, 100.0)
    write_parquet("data/catalogue.parquet", pl.DataFrame([row], schema=list(columns), orient="row"))
    game = ("s1", "p1", "Desk lamp", LAMP.category, 100.0, 40.0, 80.0, "mutual", 7, "test")
    write_parquet("data/scenarios.parquet", pl.DataFrame([game], schema=SCHEMA, orient="row"))
    return project


def test_help_loads_nothing_heavy_and_names_every_command() -> None:
    code = (
        "import sys; from dealwright.cli import main\n"
        "try: main(['--help'])\n"
        f"finally: print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "loaded: []"
    for command in COMMANDS:
        assert f"\n  {command} " in shown
    assert "Exit codes: 0 done" in shown


def test_help_takes_little_processor_time() -> None:
    before = os.times().children_user
    subprocess.run([sys.executable, "-m", "dealwright", "--help"], capture_output=True, check=True)
    assert os.times().children_user - before < 0.5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"\n  dealwright {command}" in result.stdout


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("dealwright pro", ["profile", "promote"]),
        ("dealwright profile sm", ["smoke", "smol", "smol_cpu"]),
        ("dealwright play --as s", ["seller"]),
        ("dealwright play --against li", ["linear_ladder"]),
        ("dealwright play --as buyer --against be", ["begging"]),
        ("dealwright transcripts v", ["validation"]),
        ("dealwright transcripts --outcome buyer", ["buyer_quit"]),
        ("dealwright transcripts --cat", ["--category"]),
    ],
)
def test_the_shell_completes_commands_options_and_names(typed: str, expected: list[str], project: Path) -> None:
    (project / "data/rollouts").mkdir()
    (project / "data/rollouts/validation.parquet").touch()
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_DEALWRIGHT_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, prog_name="dealwright", env=words)
    assert [line.split(",")[1] for line in result.stdout.splitlines()] == expected


def test_bash_and_zsh_and_fish_get_a_script_to_complete_with() -> None:
    for shell in ("bash", "zsh", "fish"):
        result = CliRunner().invoke(main, prog_name="dealwright", env={"_DEALWRIGHT_COMPLETE": f"{shell}_source"})
        assert f"_DEALWRIGHT_COMPLETE={shell}_complete" in result.stdout


def test_a_wrong_usage_exits_with_2_and_a_users_error_with_1_in_one_line(project: Path) -> None:
    assert run("profile").exit_code == 2
    assert run("no-such-command").exit_code == 2
    result = run("profile", "huge")
    assert result.exit_code == 1
    known = "full, paper, smoke, smol, smol_cpu, tiny"
    assert result.stderr == f"error: expected one of the profiles {known}, got 'huge'\n"


def test_profile_says_what_it_changed(project: Path) -> None:
    result = run("profile", "smoke")
    assert result.exit_code == 0
    assert (
        result.stdout == "params.yaml now has the profile smoke; 20 sizes changed, as `dealwright check` lists them\n"
    )
    assert run("profile", "smoke").stdout == "params.yaml has the profile smoke already\n"


def test_check_says_how_many_products_untrained_categories_leave_out(project: Path) -> None:
    rows = [
        {"title": f"Kettle {number}", "list_price": 10, "lowest_price": 5, "category": "Home" if number % 4 else "Tea"}
        for number in range(20)
    ]
    (project / "data/catalogue/things.jsonl").write_text("\n".join(map(json.dumps, rows)))
    set_params({"prompts.untrained_categories": ["Tea"]}, project / "params.yaml", "the test")
    result = run("check")
    assert result.stderr == ""
    assert result.stdout.splitlines()[-2:] == [
        "catalogue: 16 products (12 train, 1 validation, 3 test), 0 set aside",
        "  4 left out: of prompts.untrained_categories, and not for test",
    ]


def test_check_names_the_profile_and_what_differs_from_the_committed_parameters(project: Path) -> None:
    assert run("check").stdout == f"profile: tiny\nparams.yaml: as committed\n{KETTLES}"
    run("profile", "smoke")
    lines = run("check").stdout.splitlines()
    assert lines[:2] == ["profile: smoke", "params.yaml differs from the committed one:"]
    assert "  train.steps: 22 -> 2" in lines
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("steps: 2  ", "steps: 3  "))
    assert "profile: smoke, with warmstart.steps: 2 -> 3, train.steps: 2 -> 3" in run("check").stdout
    looked = json.loads(run("check", "--json").stdout)
    assert looked["profile"] == "smoke"
    assert {"name": "train.steps", "old": 22, "new": 3} in looked["edits"]


def test_check_works_without_git(project: Path) -> None:
    shutil.rmtree(project / ".git")
    assert run("check").stdout == f"profile: tiny\nparams.yaml: nothing committed to compare with\n{KETTLES}"


def test_check_says_which_rows_are_set_aside_and_which_columns_are_not_read(project: Path) -> None:
    things = project / "data/catalogue/things.jsonl"
    things.write_text(
        f'{{"title": "Kettle", "rrp": 10, "list_price": "free", "lowest_price": 5}}\n{things.read_text()}'
    )
    assert run("check").stdout.splitlines()[2:] == [
        "catalogue: 20 products (16 train, 1 validation, 3 test), 1 set aside",
        "  1 set aside: list_price is not a price",
        "  not read: rrp; catalogue.columns may name a column of them",
    ]


def test_check_refuses_a_catalogue_that_validate_would_refuse(project: Path) -> None:
    things = project / "data/catalogue/things.jsonl"
    things.write_text("".join(things.read_text().splitlines(keepends=True)[:7]) + '{"title": "X", "list_price": 9}')
    result = run("check")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: catalogue.path: expected at least 20 products (validate.minimum_rows), got 7; 1 rows are set aside, "
        "most of them as title is shorter than 3 characters\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  steps: 22 ", "  stepz: 22 ", "train.stepz: Extra inputs are not permitted, got 22"),
        ("path: data/catalogue ", "path: data/nowhere ", "found nothing at data/nowhere"),
        ("columns: {} ", "columns: {title: name} ", "no column 'name' for title"),
        ("base: data/base ", "base: data/other ", "found no config.json in data/other"),
    ],
)
def test_check_finds_what_would_stop_a_run(old: str, new: str, message: str, project: Path) -> None:
    params = project / "params.yaml"
    assert old in params.read_text()
    params.write_text(params.read_text().replace(old, new))
    result = run("check")
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["results", "register", "play"])
def test_a_command_before_the_first_run_says_what_to_run(command: str, project: Path) -> None:
    result = run(command)
    assert result.exit_code == 1
    assert "run `dvc repro" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_outside_the_project_the_error_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["check"], ["profile", "smoke"], ["register"], ["play"]):
        result = run(*command)
        assert result.exit_code == 1
        assert "run from the project's root" in result.stderr or "run `dvc repro" in result.stderr


def test_a_person_sells_to_a_script_without_loading_torch(tables: Path) -> None:
    typed = [
        "nonsense",
        "30 cheap",
        "95 it is as new, my cost is $40.00",
        "95 it is as new",
        "90",
        "deal",
        "70.5",
        "deal",
    ]
    code = "import sys; from dealwright.cli import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code, "play", "--against", "linear_ladder", "--seed", "1"],
        input="\n".join(typed) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout
    assert shown.splitlines()[-1] == "False"
    for expected in (
        "Your cost is $40.00; never sell below it, never tell it.",
        "buyer> [BUY] $32.00",
        "     say it with an answer in front, as in: reject nonsense",
        "     that is below your cost",
        "     never state your cost",
        "buyer> [BUY] $40.80",
        "deal at $49.60 in turn 3",
        "list price $100.00, budget $80.00, cost $40.00 (mutual zone)",
        "the buyer's reward is +0.76",
    ):
        assert expected in shown, expected


def test_ctrl_c_leaves_the_table_at_once(tables: Path) -> None:
    command = [sys.executable, "-m", "dealwright", "play", "--against", "linear_ladder"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        shown = b""
        while not shown.endswith(b"you> "):
            shown += process.stdout.read(1)
        try:
            for _ in range(60):  # a signal that comes just before the reading begins is seen only with the next one
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    assert process.wait(1) in (1, -signal.SIGINT)  # the second signal may come while Python ends
                    break
        finally:
            process.kill()
        assert process.stdout.read().strip() == b"Aborted!"


def test_a_person_buys_and_leaves_at_the_end_of_the_input(tables: Path) -> None:
    result = run("play", "--as", "buyer", "--against", "floor_only", typed=["20 the lamp is old", "deal"])
    assert "Your budget is $80.00; paying more counts as a loss." in result.stdout
    assert "seller> [REJECT]   No." in result.stdout
    assert "     there is no offer yet to accept" in result.stdout
    assert "buyer quit in turn 2" in result.stdout
    assert result.exit_code == 0


def test_a_product_is_found_by_words_of_its_title(tables: Path) -> None:
    assert "Desk lamp" in run("play", "--against", "staller", "--product", "LAMP desk").stdout
    result = run("play", "--against", "staller", "--product", "sofa")
    assert result.stderr == "error: no title has the words 'sofa'; leave --product out for one by chance\n"


def test_an_unknown_opponent_is_named_with_the_known(tables: Path) -> None:
    result = run("play", "--against", "nobody")
    assert result.exit_code == 1
    assert "expected trained, warmstart, base, arguing_ladder" in result.stderr
    assert "got 'nobody'" in result.stderr


def test_a_buyer_that_the_pipeline_has_not_made_yet_is_named_as_such(tables: Path) -> None:
    result = run("play", "--against", "warmstart")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is no warmstart buyer in data/models/warmstart yet; run `dvc repro`")


def test_nothing_that_a_terminal_obeys_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Person(Role.SELLER, monotone=True).welcome(Negotiation(scenario()))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "A lamp. It is bright." in shown


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("", "type a price, as in 94, or deal, reject or quit"),
        ("1,23", "1,23 is no price; write it like 94 or 1,234.50"),
        ("0", "0 is no price; write it like 94 or 1,234.50"),
        ("9" * 400, f"{'9' * 400} is no price; write it like 94 or 1,234.50"),
        ("50k", "50k is no price; write it like 94 or 1,234.50"),
        ("-5 please", "-5 is no price; write it like 94 or 1,234.50"),
        ("€95", "€95 is no price; write it like 94 or 1,234.50"),
        ("how about 95?", "the price comes first, as in: 94 it is as new"),
        ("it is as new", "say it with an answer in front, as in: reject it is as new"),
        ("OK!", "for ok type deal"),
        ("no, thank you", "for no type reject"),
        ("bye", "for bye type quit"),
        ("deal", "there is no offer yet to accept"),
        ("39.99", "that is below your cost"),
        ("95 " + "x" * 2000, "that is too long to say"),
    ],
)
def test_what_no_seller_may_say_is_asked_again(typed: str, problem: str) -> None:
    game = Negotiation(scenario())
    game.play(Role.BUYER, "Talk: hello\nAction: [REJECT]")
    assert Person(Role.SELLER, monotone=True).read(game, typed) == (None, problem)


def test_nobody_gives_away_what_is_on_the_table_already() -> None:
    game = Negotiation(scenario())
    game.play(Role.BUYER, "Talk: hello\nAction: [BUY] $60")
    seller, buyer = Person(Role.SELLER, monotone=True), Person(Role.BUYER, monotone=True)
    for typed in ("50 for you", "60"):
        assert seller.read(game, typed) == (None, "the buyer offers $60.00 already; deal takes that")
    assert seller.read(game, "39")[1] == "that is below your cost"
    assert seller.read(game, "60.01")[0] == "Talk:\nAction: [SELL] $60.01"
    game.play(Role.SELLER, "Talk: hello\nAction: [SELL] $70")
    for typed in ("75 for you", "70"):
        assert buyer.read(game, typed) == (None, "the seller offers $70.00 already; deal takes that")
    assert buyer.read(game, "69.99")[0] == "Talk:\nAction: [BUY] $69.99"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("95", "Talk:\nAction: [SELL] $95.00"),
        ("$1,095.5: as new", "Talk: as new\nAction: [SELL] $1095.50"),
        ("deal", "Talk:\nAction: [DEAL] $50.00"),
        ("DEAL fine", "Talk: fine\nAction: [DEAL] $50.00"),
        ("reject no", "Talk: no\nAction: [REJECT]"),
        ("quit", "Talk:\nAction: [QUIT]"),
    ],
)
def test_a_line_becomes_a_message(typed: str, text: str) -> None:
    game = Negotiation(scenario())
    game.play(Role.BUYER, "Talk: hello\nAction: [BUY] $50")
    assert Person(Role.SELLER, monotone=False).read(game, typed) == (text, "")


def test_the_offers_stand_on_a_line_between_what_a_side_knows() -> None:
    game = Negotiation(scenario())
    game.play(Role.BUYER, "Action: [BUY] $40")
    game.play(Role.SELLER, "Action: [SELL] $100")
    assert offers_line(game, Role.SELLER) == f"$40.00 |b{'-' * 42}a| $100.00   b bid $40.00, a ask $100.00"
    assert "B budget $80.00" in offers_line(game, Role.BUYER)
    assert "$40.00 |" not in offers_line(game, Role.BUYER)


class FakeHub:
    """Stands in for the hub: one model with one commit."""

    commit = "a" * 40

    def __init__(self) -> None:
        self.downloads: list[tuple[str, str]] = []

    def model_info(self, name: str, revision: str | None = None) -> "FakeHub":
        if name == "no/such":
            raise OSError("Repository Not Found\nmore")
        return self

    @property
    def sha(self) -> str:
        return self.commit

    def snapshot_download(self, name: str, revision: str, local_dir: Path, allow_patterns: list[str]) -> None:
        assert "*.bin" not in allow_patterns
        self.downloads.append((name, revision))
        (local_dir / ".cache/huggingface").mkdir(parents=True)
        (local_dir / "config.json").write_text("{}")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    import huggingface_hub

    fake = FakeHub()
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


def test_a_model_is_fetched_at_one_commit_which_is_recorded(hub: FakeHub, tmp_path: Path) -> None:
    result = run("fetch-model", "org/Small-Model")
    assert result.stdout == "data/external/Small-Model\n"
    folder = tmp_path / "data/external/Small-Model"
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "source.json"]
    assert json.loads((folder / "source.json").read_text()) == {"model": "org/Small-Model", "revision": "a" * 40}
    assert hub.downloads == [("org/Small-Model", "a" * 40)]
    assert run("fetch-model", "org/Small-Model").stdout == "data/external/Small-Model\n"
    assert len(hub.downloads) == 1


def test_a_model_is_never_put_over_another(hub: FakeHub) -> None:
    run("fetch-model", "org/Small-Model")
    for name, commit in (("other/Small-Model", "a" * 40), ("org/Small-Model", "b" * 40)):
        hub.commit = commit
        result = run("fetch-model", name)
        assert result.exit_code == 1
        assert f"holds org/Small-Model at {'a' * 40}, not {name} at {commit}" in result.stderr


def test_a_model_that_cannot_be_fetched_is_one_line(hub: FakeHub) -> None:
    result = run("fetch-model", "no/such", "--revision", "v1")
    assert result.exit_code == 1
    assert result.stderr == "error: cannot fetch no/such at v1: Repository Not Found\n"


def test_games_against_scripts_end_for_every_opponent(tables: Path) -> None:
    from dealwright.cli.seating import find_buyer, find_seller
    from dealwright.players import make_scripts
    from dealwright.rollout import play

    params = load_params()
    for name in make_scripts({}):
        game = Negotiation(scenario())
        buyer, seller = (
            player.seat([scenario()], 0, tables) for player in (find_buyer(name, params), find_seller(None, params))
        )
        play([game], buyer, seller)
        assert game.outcome is not None
        assert game.outcome.stop is not StopReason.INVALID


def test_a_checkpoints_folder_without_a_model_is_refused(tables: Path) -> None:
    from dealwright.cli.seating import find_buyer

    with pytest.raises(DealwrightError, match="or a registered version as in 7 or @champion, got 'data/empty'"):
        find_buyer("data/empty", load_params())
