"""Hostile parameters, models and disks: one line before work starts, and what was there stays or comes back."""

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dealwright.cli import main as command_line
from dealwright.errors import DealwrightError, run_stage
from stages.ingest import main as ingest
from tests.disk import full_disk, without_rights

ROOT = Path(__file__).parents[1]
EARLIER = ("data/catalogue.parquet", "data/rejected.parquet", "reports/ingest.json")
ROWS = [{"title": f"Kettle {n}", "list_price": 10, "lowest_price": 5} for n in range(30)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with parameters, profiles, a small catalogue and an empty model."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    for folder in ("data/base", "products", "reports"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data/base/config.json").write_text("{}")
    (tmp_path / "products/things.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    change("catalogue.path", "products")
    return tmp_path


def change(key: str, value: object) -> None:
    """Write the committed params.yaml with one value changed or added, and the small catalogue."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["catalogue"]["path"] = "products"
    *groups, leaf = key.split(".")
    place = params
    for group in groups:
        place = place[group]
    place[leaf] = value
    Path("params.yaml").write_text(yaml.safe_dump(params))


def checked() -> str:
    """Run `dealwright check`, which must fail with one line, and return the line."""
    result = CliRunner().invoke(command_line, ["check"])
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


def test_parameters_that_are_good_pass(project: Path) -> None:
    assert CliRunner().invoke(command_line, ["check"]).exit_code == 0


REFUSED: list[tuple[str, object, str]] = [
    ("train.stepz", 5, "train.stepz: Extra inputs are not permitted, got 5"),
    ("extra", {}, "extra: Extra inputs are not permitted"),
    ("train", None, "train: Input should be a valid dictionary"),
    ("train", [1], "train: Input should be a valid dictionary"),
    ("train.steps", "many", "train.steps: Input should be a valid integer"),
    ("train.steps", True, "train.steps: Value error, expected no true or false, got True"),
    ("train.steps", 4.5, "train.steps: Input should be a valid integer"),
    ("train.steps", 0, "train.steps: Input should be greater than or equal to 1, got 0"),
    ("train.steps", None, "train.steps: Input should be a valid integer"),
    ("train.learning_rate", float("inf"), "train.learning_rate: Input should be a finite number, got inf"),
    ("train.learning_rate", float("nan"), "train.learning_rate: Input should be a finite number, got nan"),
    ("train.learning_rate", True, "train.learning_rate: Value error, expected no true or false"),
    ("train.seed", -1, "train.seed: Input should be greater than or equal to 0, got -1"),
    ("train.seed", 2**32, "train.seed: Input should be less than 4294967296"),
    ("train.group_size", 1, "train.group_size: Input should be greater than or equal to 2"),
    ("train.micro_batch", 7, "train.micro_batch: Value error, must divide the"),
    ("train.kl", 0.1, "train.kl: Value error, needs update_share 1"),
    ("train.schedule", "up", "train.schedule: Input should be 'constant', 'linear' or 'cosine'"),
    ("train.seller", "trainning", "train.seller: unknown seller 'trainning'; expected one of training, stronger"),
    ("train.seller", "floor_only", "evaluate.ablations, of train.seller: unknown seller 'floor_only/talk_emptied'"),
    ("train.server", "http://127.0.0.1:8000/v1", "train.lora_rank: Value error, must be above 0 beside train.server"),
    ("train.server", "127.0.0.1:8000", "train.server: String should match pattern"),
    ("train.server", "http://127.0.0.1:0/v1", "train.server: Value error, expected an address such as http://127."),
    ("select.seller", "", "select.seller: unknown seller ''; expected one of"),
    ("evaluate.sellers", ["training", "begin"], "evaluate.sellers: unknown seller 'begin'; expected one of"),
    ("evaluate.sellers", ["stronger"], "evaluate.sellers: expected training among them"),
    ("evaluate.sellers", ["training", "training"], "evaluate.sellers: expected each seller once"),
    ("evaluate.sellers", [], "evaluate.sellers: Tuple should have at least 1 item"),
    ("evaluate.sellers", "training", "evaluate.sellers: Input should be a valid tuple"),
    ("evaluate.ablations", ["talk"], "evaluate.ablations.0: Input should be 'talk_emptied'"),
    ("validate.conflict_share", [0.5, 0.1], "validate.conflict_share: Value error, the first must not be above"),
    ("catalogue.title_characters", [500, 3], "catalogue.title_characters: Value error, the first must not be above"),
    ("catalogue.title_characters", [3], "catalogue.title_characters.1: Field required"),
    ("catalogue.source", "excel", "catalogue.source: Input should be 'bundled'"),
    ("catalogue.currency", "dollars", "catalogue.currency: String should match pattern"),
    ("catalogue.currency", "XQX", "catalogue.currency: expected an ISO 4217 code such as USD, got 'XQX'"),
    ("catalogue.cost_ratio", 1.5, "catalogue.cost_ratio: Input should be less than 1"),
    ("catalogue.columns", ["title"], "catalogue.columns: Input should be a valid dictionary"),
    ("catalogue.columns", {"name": "title"}, "catalogue.columns: 'name' is none of our names"),
    ("catalogue.path", "", "catalogue.path: String should have at least 1 character"),
    ("catalogue.path", "nowhere", "catalogue.path: expected a file or a folder, found nothing at nowhere"),
    ("prompts.budget_factor", 0, "prompts.budget_factor: Input should be greater than 0"),
    ("prompts.buyer", "long", "prompts.buyer: Input should be 'brief' or 'full'"),
    ("game.regulator.monotone", "perhaps", "game.regulator.monotone: Input should be a valid boolean"),
    ("warmstart.base", "nowhere", "warmstart.base: expected a folder with a model, found no config.json in nowhere"),
    ("warmstart.gate.valid", 99, "warmstart.gate.valid: Input should be less than or equal to 1"),
    ("tracking.model", "my/buyer", "tracking.model: String should match pattern"),
    ("tracking.experiment", "", "tracking.experiment: String should have at least 1 character"),
]


@pytest.mark.parametrize(("key", "value", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_parameters_that_cannot_work_are_named_before_work_starts(
    key: str, value: object, message: str, project: Path
) -> None:
    change(key, value)
    assert message in checked()


def test_a_password_in_an_address_is_refused_and_not_repeated(project: Path) -> None:
    change("engines", {"big": {"kind": "openai", "model": "m", "address": "https://me:secret@host/v1"}})
    assert checked() == "error: engines.big.address: expected no password in it; name a key by key_variable"


def test_a_password_in_the_address_of_the_training_s_server_is_refused_and_not_repeated(project: Path) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    change("train", {**params["train"], "server": "https://me:secret@host/v1", "lora_rank": 8})
    assert checked() == (
        "error: train.server: expected no password in it; let the server listen where nobody else asks it"
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://me:secret@h:99999/v1",
        "me:secret@host/v1",
        "ftp://me:secret@host/v1",
        "http://me:secret@/v1",
        "http://me:secret@[::1/v1",
        f"http://me:{'secret' * 40}@h:99999/v1",
        f"http://me:{'secret' * 10}@h:99999/{'x' * 200}",
        ["http://me:secret@h/v1"],
        "http://h/v1?key=x",
        "http://h/v1#x",
        "http://h\n:1/v1",
        "http://h /v1",
        f"http://h/{'x' * 2000}",
    ],
)
@pytest.mark.parametrize("key", ["server", "servr"])
def test_an_address_that_cannot_be_asked_is_refused_without_its_password(
    key: str, address: object, project: Path
) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    change("train", {**params["train"], key: address, "lora_rank": 8})
    line = checked()
    assert f"train.{key}: " in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file: Input should be a valid dictionary or instance of Params"),
        ("[1, 2]", "the file: Input should be a valid dictionary or instance of Params"),
        ("train: {", "params.yaml is not valid YAML"),
        ("a: 1\n\tb: 2", "params.yaml is not valid YAML"),
        (
            "!!python/object/apply:os.system ['true']",
            "params.yaml is not valid YAML: could not determine a constructor",
        ),
        ("a: *b", "params.yaml is not valid YAML"),
        ("a: \x00", "params.yaml is not valid YAML"),
        ("a: 2026-13-45", "params.yaml is not valid YAML: month must be in 1..12"),
        ("a: " + "[" * 5000, "params.yaml is not valid YAML: maximum recursion depth exceeded"),
        ("a: " + "{a: " * 300 + "1" + "}" * 300, "catalogue: Field required, got {'a': {'a': {'a': {'a': {'a': {"),
        # Twenty lists, each twice in the next: written out, the last is a million numbers.
        ("l0: &l0 [1]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, 20)), "; and 13 more"),
    ],
    ids=lambda value: value[:30],
)
def test_a_parameter_file_that_is_none_is_one_line(text: str, message: str, project: Path) -> None:
    Path("params.yaml").write_text(text)
    line = checked()
    assert message in line and len(line) < 4000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "train: é".encode("latin-1"),
            "cannot read params.yaml: expected UTF-8, got byte 0xe9 at 7; save it as UTF-8",
        ),
        ("train: 1".encode("utf-16"), "cannot read params.yaml: expected UTF-8, got byte 0xff at 0; save it as UTF-8"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["profile", "smoke"]], ids=["check", "profile"])
def test_parameters_in_another_encoding_are_one_line(
    command: list[str], content: bytes, message: str, project: Path
) -> None:
    Path("params.yaml").write_bytes(content)
    result = CliRunner().invoke(command_line, command)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"error: {message}\n")
    assert Path("params.yaml").read_bytes() == content


def test_a_profile_nested_too_deeply_is_one_line(project: Path) -> None:
    Path("profiles/smoke.yaml").write_text("train: " + "[" * 5000)
    result = CliRunner().invoke(command_line, ["profile", "smoke"])
    assert result.exit_code == 1
    assert (
        result.stderr.startswith("error: profiles/smoke.yaml is not valid YAML: ") and result.stderr.count("\n") == 1
    )


def lose_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def configured(**changes: object) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return damage


def empty_the_vocabulary(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"] |= {"vocab": {}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def pickle_under_another_name(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps({"weight": [1.0]}))


def index_by_a_list(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("[]")


def bring_code(folder: Path) -> None:
    """Name a model of an unknown kind that the folder's own code would build."""
    (folder / "evil.py").write_text("raise SystemExit('the code of a model was run')")
    configured(model_type="evil", auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"})(folder)


def bring_code_for_the_tokenizer(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('the code of a tokenizer was run')")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}})
    )


WRITE = r"the tokenizer in .* cannot write a dialogue: "
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty weights": (written("model.safetensors", b""), "header too small"),
    "a header of 2^64 bytes": (written("model.safetensors", b"\xff" * 9), "header too large"),
    "a pointer": (written("model.safetensors", "version https://git-lfs"), "header too large"),
    "a pickle under another name": (pickle_under_another_name, "header too large"),
    "a list for an index": (index_by_a_list, "cannot load the model in .*: TypeError: list indices"),
    "no configuration": (written("config.json", "{"), "config.json is missing or unreadable; make or fetch the model"),
    "a configuration in UTF-16": (
        written("config.json", "{}".encode("utf-16")),
        "config.json is missing or unreadable",
    ),
    "a deep configuration": (written("config.json", "[" * 200_000), "config.json is missing or unreadable"),
    "a list for a configuration": (written("config.json", "[]"), "config.json: expected an object, got list"),
    "an empty configuration": (written("config.json", "{}"), "Unrecognized model"),
    "another kind": (written("config.json", '{"model_type": "x"}'), "model type `x`"),
    "a list for a kind": (configured(model_type=["llama"]), "cannot load the model in .*: TypeError: unhashable type"),
    "a word for a size": (configured(hidden_size="8"), "'hidden_size' expected int, got str .value: '8'"),
    "a fraction for a size": (configured(vocab_size=8.5), "'vocab_size' expected int, got float .value: 8.5"),
    "true for a size": (configured(num_hidden_layers=True), "expected int, got bool"),
    "no size": (configured(intermediate_size=None), "'intermediate_size' expected int, got NoneType"),
    "no heads": (
        configured(num_attention_heads=0),
        "expected num_attention_heads of at least 1, got 0; make or fetch",
    ),
    "no heads for keys": (configured(num_key_value_heads=0), "expected num_key_value_heads of at least 1, got 0"),
    "more layers than weights": (
        configured(num_hidden_layers=100_000),
        r"expected no more num_hidden_layers than the \d+ tensors of the weights, got 100000; make or fetch",
    ),
    "no layers": (configured(num_hidden_layers=0), "expected num_hidden_layers of at least 1, got 0"),
    "a negative size": (configured(vocab_size=-8), "expected vocab_size of at least 1, got -8"),
    "a layer too few": (configured(num_hidden_layers=1), "hold 9 tensors that are none of the model's, among them"),
    "other sizes": (configured(intermediate_size=32), "its weights have other sizes than its config.json says"),
    "10^12 words": (configured(vocab_size=10**12), "its weights have other sizes than its config.json says"),
    "an unknown function": (configured(hidden_act="nope"), "cannot load the model in .*: KeyError: 'nope'"),
    "code of its own": (bring_code, "contains custom code"),
    "a tokenizer's own code": (bring_code_for_the_tokenizer, "contains custom code"),
    "no tokenizer": (lose_tokenizer, "make or fetch it again"),
    "half a tokenizer": (written("tokenizer.json", "{"), "make or fetch it again"),
    "an empty tokenizer": (written("tokenizer.json", "{}"), "cannot load the model in .*: KeyError: 'added_tokens'"),
    "no vocabulary": (empty_the_vocabulary, r"reads '\[BUY\] \$1234.50' as ''; fetch it again, or take another model"),
    "a list for a tokenizer": (written("tokenizer_config.json", "[]"), "cannot load the model in"),
    "an empty template": (written("chat_template.jinja", ""), "expected a chat template"),
    "a broken template": (written("chat_template.jinja", "{% for %}"), WRITE + "TemplateSyntaxError: Expected an"),
    "a template that divides by zero": (written("chat_template.jinja", "{{ 1 / 0 }}"), WRITE + "ZeroDivisionError"),
    "a template that reaches out": (
        written("chat_template.jinja", "{{ messages.__class__.__mro__ }}"),
        WRITE + "SecurityError",
    ),
    "a template without end": (
        written("chat_template.jinja", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        WRITE + "RecursionError",
    ),
    "a template that knows no system": (
        written("chat_template.jinja", "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"),
        WRITE + "TemplateError: no; take an instruct model",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_model_is_one_line(name: str, base_folder: Path, tmp_path: Path) -> None:
    from dealwright.engines.loading import load_model

    damage, message = DAMAGES[name]
    folder = tmp_path / "base"
    shutil.copytree(base_folder, folder)
    damage(folder)
    with pytest.raises(DealwrightError, match=message) as stop:
        load_model(folder)
    assert "\n" not in str(stop.value) and len(str(stop.value)) < 600


@pytest.fixture
def earlier(project: Path) -> Path:
    """Enter a project with the results of an earlier run."""
    for path in EARLIER:
        Path(path).write_bytes(b"earlier")
    return project


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """Run the stage, which must fail with one line and leave the earlier results, and return the line."""
    with pytest.raises(SystemExit) as stop:
        run_stage(ingest)
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_full_disk_is_one_line_and_leaves_what_was_there(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with full_disk(500):
        line = refusal(capsys)
    assert line.startswith("error: cannot write data/catalogue.parquet: ")
    assert "File too large" in line and line.endswith("what was there is kept, so make room and run it again")
    assert [Path(path).read_bytes() for path in EARLIER] == [b"earlier"] * 3
    assert sorted(file.name for file in Path("data").iterdir()) == ["base", "catalogue.parquet", "rejected.parquet"]


def test_a_folder_that_may_not_be_written_is_one_line(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (Path(), Path("data"), Path("products")):
        folder.chmod(0o555)
    with without_rights():
        line = refusal(capsys)
    assert line.startswith("error: cannot write data/catalogue.parquet: ") and "ermission denied" in line
    assert [Path(path).read_bytes() for path in EARLIER] == [b"earlier"] * 3


def test_a_command_on_a_full_disk_is_one_line(project: Path) -> None:
    before = Path("params.yaml").read_bytes()
    with full_disk(500):
        result = CliRunner().invoke(command_line, ["profile", "smoke"])
    assert result.exit_code == 1
    assert result.stderr == (
        "error: cannot write params.yaml: File too large; what was there is kept, so make room and run it again\n"
    )
    assert Path("params.yaml").read_bytes() == before


def test_what_dvc_removed_before_a_failing_stage_comes_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dvc.exceptions import ReproductionError
    from dvc.repo import Repo

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    stage = {"cmd": "python -m stages.ingest", "deps": ["products"], "outs": list(EARLIER[:2])}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"ingest": stage}}))
    with Repo.init(no_scm=True) as repo:
        repo.reproduce()
        made = [Path(path).read_bytes() for path in EARLIER[:2]]
        Path("products/things.jsonl").write_text("no product\n")
        with pytest.raises(ReproductionError):
            repo.reproduce()
        assert not Path(EARLIER[0]).exists()
        repo.checkout()
    assert [Path(path).read_bytes() for path in EARLIER[:2]] == made
