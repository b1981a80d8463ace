"""What no line of this repository does: run data as code, load pickles, listen to the network."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = [
    path
    for folder in ("dealwright", "stages", "flows", "benchmarks", "tests")
    for path in ROOT.glob(f"{folder}/**/*.py")
]
# Calls by the end of their dotted name, with what makes the ones that are allowed harmless.
NEVER = (
    *("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "dill.load", "dill.loads", "joblib.load", "marshal.loads"),
    *("cloudpickle.load", "cloudpickle.loads", "pandas.read_pickle", "pd.read_pickle", "shelve.open"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"),
)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def faults(code: str) -> list[str]:
    """Return the calls in some code that could run what is only data."""
    found = []
    for name, call in calls(ast.parse(code)):
        keywords = {word.arg: ast.unparse(word.value) for word in call.keywords}
        if (
            name in NEVER
            or keywords.get("shell", "False") != "False"
            or keywords.get("trust_remote_code", "False") != "False"
            or keywords.get("allow_pickle", "False") != "False"
            or (name == "torch.load" and keywords.get("weights_only") != "True")
            or (name.endswith("from_pretrained") and keywords.get("use_safetensors", "True") != "True")
        ):
            found.append(f"line {call.lineno}: {ast.unparse(call)}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_runs_what_is_only_data(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(f'ls {name}', shell=True)",
        "os.system('ls ' + name)",
        "eval(text)",
        "pickle.load(file)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader=yaml.Loader)",
        "AutoTokenizer.from_pretrained(folder, trust_remote_code=True)",
    ],
)
def test_such_a_line_would_be_found(code: str) -> None:
    assert len(faults(code)) == 1


def test_every_stage_is_one_command_without_a_shell_s_signs() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert [stage["cmd"] for stage in stages.values()] == [f"python -m stages.{name}" for name in stages]


def test_no_server_of_ours_is_told_to_listen_to_the_network() -> None:
    everywhere = ("0.0.0" + ".0", "[:" + ":]")
    for path in [*FILES, ROOT / "Makefile", ROOT / "prefect.yaml", ROOT / "README.md"]:
        assert not [word for word in everywhere if word in path.read_text(encoding="utf-8")], path
