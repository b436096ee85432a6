"""Who may import whom, and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import omegalimit

PACKAGE = Path(omegalimit.__file__).parent
ANYBODY = {"_numerics", "_checks", "_exact", "_threads", "_html"}
NOBODY: set[str] = set()
BEFORE_THE_CATALOGUE = {
    *("data", "models", "losses", "trajectory", "certificate", "claims"),
    *("problem", "flows", "limits", "solvers", "rigorous"),
}
# The rooms of the house and what of ours each may import besides those of `ANYBODY`. Flows on one side and limits and
# solvers on the other never meet: a prediction confirmed by code that it shares with the experiment is none.
MAY_IMPORT = {
    "_numerics": NOBODY,
    "_checks": NOBODY,
    "_exact": {"_checks"},
    "_threads": NOBODY,
    "_html": NOBODY,
    "data": NOBODY,
    "models": NOBODY,
    "losses": NOBODY,
    "trajectory": NOBODY,
    "certificate": NOBODY,
    "claims": NOBODY,
    "problem": {"data", "models", "losses"},
    "flows": {"problem", "losses", "trajectory", "data", "models"},
    "limits": {"certificate"},
    "solvers": {"limits", "certificate"},
    "rigorous": {"limits", "certificate", "models"},
    "proof": {"limits", "rigorous"},
    "_stored": NOBODY,
    "record": {"trajectory", "certificate", "claims", "_stored"},
    "catalogue": BEFORE_THE_CATALOGUE | {"diagnose"},
    "diagnose": {"trajectory", "limits", "solvers", "certificate", "claims"},
    # An estimator whose method is the dynamics runs a flow; it judges nothing.
    "estimators": {"trajectory", "flows", "limits", "solvers", "certificate", "claims"},
    "store": {"record", "claims"},
    "report": {"record", "claims", "certificate", "store"},
    "sweep": {"catalogue", "record", "store", "claims"},
}
FREE = {"__init__", "__main__", "cli"}  # the door and the command: any room
FILES = sorted(PACKAGE.rglob("*.py"))


def room(module: tuple[str, ...]) -> str:
    """The room of a module given by its parts below the package; the package itself is `__init__`."""
    return module[0] if module else "__init__"


def imported(tree: ast.AST, module: tuple[str, ...]) -> set[str]:
    """The rooms that a module, given by the parts of its name below the package, imports anywhere in its code."""
    rooms: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            rooms |= {room(tuple(name[1:])) for name in names if name[0] == "omegalimit"}
        elif isinstance(node, ast.ImportFrom):
            target = (node.module or "").split(".") if node.module else []
            if node.level:
                base = list(module[: len(module) - node.level])
            elif target[:1] == ["omegalimit"]:
                base, target = [], target[1:]
            else:
                continue
            whole = (*base, *target)
            # `from .. import claims` names the rooms after the word import.
            rooms |= {room(whole)} if whole else {alias.name for alias in node.names}
    return rooms


def parts(file: Path) -> tuple[str, ...]:
    """The parts of the module's name below the package, with `__init__` kept, so that a level of dots is one part."""
    return file.relative_to(PACKAGE).with_suffix("").parts


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PACKAGE)) for file in FILES])
def test_a_room_imports_only_what_it_may(file):
    module = parts(file)
    here = room(module)
    assert here in MAY_IMPORT or here in FREE, f"{here} is not in the table: give it a line"
    if here in FREE:
        return
    others = imported(ast.parse(file.read_text()), module) - ANYBODY - {here}
    if here in ANYBODY:
        others = imported(ast.parse(file.read_text()), module)
    assert others <= MAY_IMPORT[here], f"{here} may not import {sorted(others - MAY_IMPORT[here])}"


@pytest.mark.parametrize(
    ("code", "module", "rooms"),
    [
        ("from ..limits import x", ("flows", "a"), {"limits"}),
        ("from .limits import x", ("problem",), {"limits"}),
        ("from ... import limits", ("catalogue", "attention", "a"), {"limits"}),
        ("from .. import limits as l, claims", ("flows", "__init__"), {"limits", "claims"}),
        ("from . import b", ("flows", "a"), {"flows"}),
        ("from ...limits.b import x", ("catalogue", "attention", "a"), {"limits"}),
        ("import omegalimit.limits.b", ("flows", "a"), {"limits"}),
        ("import omegalimit", ("flows", "a"), {"__init__"}),
        ("from omegalimit import limits", ("flows", "a"), {"limits"}),
        ("from omegalimit.limits import b", ("flows", "a"), {"limits"}),
        ("def f():\n    from ..limits import x", ("flows", "a"), {"limits"}),
        ("import limits, numpy.linalg\nfrom jax import limits", ("flows", "a"), set()),
    ],
)
def test_the_test_sees_every_way_to_import(code, module, rooms):
    assert imported(ast.parse(code), module) == rooms


def test_the_witnesses_do_not_meet():
    assert not MAY_IMPORT["flows"] & {"limits", "solvers"}
    assert not (MAY_IMPORT["limits"] | MAY_IMPORT["solvers"]) & {"flows", "problem", "trajectory", "models"}


HEAVY = (
    "jax",
    "equinox",
    "xarray",
    "pandas",
    "matplotlib",
    "scipy",
    "sklearn",
    "h5netcdf",
    "h5py",
    "tyro",
    "rich",
    "jinja2",
    "dask",
)
QUICK = {
    "import omegalimit": (*HEAVY, "numpy", "argparse"),
    "import omegalimit; dir(omegalimit); omegalimit.__version__": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['list'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['list', '--json'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['--version'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['--help'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['run', 'no-such-system'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['solve', '--help'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['certify', 'max-margin', '--help'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['solve', 'no-such-limit'])": (*HEAVY, "numpy"),
    "from omegalimit import Verdict, Outcome, load": (*HEAVY, "numpy"),
    "import omegalimit.record": (*HEAVY, "numpy"),
    "import omegalimit.store": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['sweep', '--help'])": (*HEAVY, "numpy"),
    "from omegalimit.cli import main; main(['report', '--help'])": (*HEAVY, "numpy"),
}


@pytest.mark.parametrize("code", QUICK)
def test_what_is_not_used_is_not_imported(code):
    look = f"\nimport sys; found = [name for name in {QUICK[code]!r} if name in sys.modules]\nprint('FOUND', found)"
    done = subprocess.run([sys.executable, "-c", code + look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "FOUND []"


def test_every_public_name_is_there():
    for name in omegalimit.__all__:
        assert getattr(omegalimit, name) is not None
        assert name in dir(omegalimit)


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    guarded = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == omegalimit._PUBLIC


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match=r"^module 'omegalimit' has no attribute 'Margin'$"):
        _ = omegalimit.Margin  # pyright: ignore[reportAttributeAccessIssue]
