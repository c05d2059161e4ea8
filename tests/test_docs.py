"""What the documentation names is there: in its examples, links and commands, and in the roles of docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__
import pinets
from pinets import cli
from pinets.cli.app import VERBS, make_parser
from pinets.report.diagram import diagram
from pinets.tasks import get_recipe, list_recipes, run_folder
from pinets.tasks.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[1]
SOURCE = Path(pinets.__file__).parent
INDEX = ROOT / "docs" / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n)+")
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^(?:\$ )?(?:torchrun .* -m pinets\.cli|(?:\S+/)?pinets) +(?=\S)(.*)", re.MULTILINE)
BENCHMARK = re.compile(r"python -m benchmarks +(\S[^`\n]*)")
ROLE = re.compile(r":(?:py:)?(?:class|func|meth|mod|data|attr|exc|obj):`(?:[^`<]*<)?([^`>]+)>?`")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def find(name: str) -> object:
    """What a dotted name stands for: a module where there is one, else what its longest module has of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        if not home:
            raise
        return getattr(find(home), last)


def is_there(name: str) -> bool:
    try:
        find(name)
    except (ImportError, AttributeError):
        return False
    return True


# Examples


def examples(text: str) -> list[str]:
    return [code for language, code in FENCED.findall(text) if language == "python"]


def names_of_pinets(code: str) -> set[str]:
    """The dotted names below pinets that code imports or writes out; what does not compile is an error."""
    found = set()
    for node in ast.walk(compile(code, "example", "exec", ast.PyCF_ONLY_AST)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return {name for name in found if re.fullmatch(r"pinets(\.\w+)*", name)}


@each_page
def test_examples_compile_and_import_what_is_there(page):
    names = set().union(*map(names_of_pinets, examples(page.read_text(encoding="utf-8"))))
    assert not {name for name in names if not is_there(name)}


@each_page
def test_names_of_pinets_in_the_text_are_there(page):
    names = set(re.findall(r"`(pinets(?:\.\w+)+)[`(]", page.read_text(encoding="utf-8")))
    names.discard("pinets.json")  # a file
    assert not {name for name in names if not is_there(name)}


def test_the_check_of_examples_finds_what_is_not_there():
    text = "```python\nfrom pinets import CCP, CPC\nimport pinets.spce\npinets.algebra.orders(pinets.oders)\n```\n"
    (code,) = examples(text)
    names = names_of_pinets(code)
    assert {name for name in names if not is_there(name)} == {"pinets.CPC", "pinets.spce", "pinets.oders"}
    with pytest.raises(SyntaxError):
        names_of_pinets("model(\n")


# Links


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.*?) *$", FENCED.sub("", text), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{n}" if n else anchor for anchor, count in found.items() for n in range(count + 1)}


def broken_links(page: Path) -> list[str]:
    text = SPAN.sub("code", FENCED.sub("", page.read_text(encoding="utf-8")))
    return [link for link in LINK.findall(text) if not re.match(r"https?:", link) and not leads_somewhere(page, link)]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


@each_page
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_the_check_of_links_finds_broken_ones(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# `One`, two & three\n```\n# no heading\n```\n## Same\n## Same\n")
    page.write_text(
        "# Here\n[a](#here) [b](#there) [c](other.md#one-two--three) [d](other.md#no-heading) [e](other.md#same-1)\n"
        "![f](absent.png) [g\nh](https://example.org/absent) `[i](code)`\n```\n[j](fenced)\n```\n[k](other.md#same-2)\n"
    )
    assert broken_links(page) == ["#there", "other.md#no-heading", "absent.png", "other.md#same-2"]


# Commands


def commands(text: str) -> list[list[str]]:
    """The words after `pinets` of the commands in blocks, fenced or indented."""
    blocks = [code for language, code in FENCED.findall(text) if language in ("", "bash")]
    blocks += [re.sub(r"^ {4}", "", code, flags=re.MULTILINE) for code in INDENTED.findall(FENCED.sub("", text))]
    lines = COMMAND.findall("\n".join(blocks).replace("\\\n", " "))
    return [shlex.split(line, comments=True) for line in lines]


def commands_in_passing(text: str) -> list[list[str]]:
    """The same of commands within a sentence, which may leave out what does not matter there."""
    spans = SPAN.findall(FENCED.sub("", text))
    return [shlex.split(span)[1:] for span in spans if re.match(r"pinets\s+\S", span)]


def complaint(words: list[str], capsys: pytest.CaptureFixture[str], make_parser: Any = make_parser) -> str:
    """What the command line has against a command; nothing is run."""
    try:
        make_parser(words).parse_args(words)
    except SystemExit:
        return capsys.readouterr().err
    return ""


@each_page
def test_commands_are_understood(page, capsys):
    text = page.read_text(encoding="utf-8")
    complaints = [complaint(words, capsys) for words in commands(text)]
    complaints += [said for words in commands_in_passing(text) if "unknown" in (said := complaint(words, capsys))]
    assert not any(complaints), "".join(complaints)


@each_page
def test_benchmarks_are_understood(page, capsys):
    for line in BENCHMARK.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
        assert not complaint(shlex.split(line, comments=True), capsys, benchmarks.__main__.make_parser)


@each_page
def test_recipes_and_experiments_of_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    for words in commands(text):
        args = make_parser(words).parse_args(words)
        if args.verb == "reproduce":
            assert args.name in {None, *EXPERIMENTS}
        if args.verb in ("train", "compare"):
            for name in [getattr(args, "name", None)] if args.verb == "train" else args.names:
                if name is not None and ".py:" not in name:  # one's own data, or one's own file
                    get_recipe(name, args.scale)
    folders = set(re.findall(r"\bruns/([a-z]\w*?)(?:-small)?/seed-\d", text))
    assert folders <= set(list_recipes())


def test_the_check_of_commands_finds_mistakes(capsys):
    text = (
        "Text\n\n    pinets lst recipes\n\n- an item\n    pinets not a block\n\n"
        "```\n$ pinets train cifar10_resnet18 \\\n    --sed 3  # how often\npinets certify\n  pinets in output\n```\n"
        "```bash\ntorchrun --nproc-per-node 2 -m pinets.cli trian cor\n.venv/bin/pinets list recipes\n```\n"
        "and `pinets export --fold`, `pinets\nexport --flod`, `pinets`.\n"
    )
    found = commands(text)
    assert found == [
        *(["train", "cifar10_resnet18", "--sed", "3"], ["certify"], ["trian", "cor"], ["list", "recipes"]),
        ["lst", "recipes"],
    ]
    said = [complaint(words, capsys).partition("\n")[0] for words in found]
    assert [re.search(r"unknown \S+ \S+|required|$", line)[0] for line in said] == [
        *("unknown option '--sed';", "required", "unknown verb 'trian';", "", "unknown verb 'lst';"),
    ]
    assert commands_in_passing(text) == [["export", "--fold"], ["export", "--flod"]]
    said = [complaint(words, capsys) for words in commands_in_passing(text)]
    assert ["unknown" in line for line in said] == [False, True]


# Results

RESULTS = ROOT / "docs" / "results"


def recorded_pages() -> list[tuple[Path, list[str]]]:
    """The pages of experiments whose runs are recorded beside them, and the commands that make them."""
    found = []
    for page in sorted(RESULTS.glob("*.md")):
        (words,) = (words for words in commands(page.read_text(encoding="utf-8")) if words[0] == "reproduce")
        args = make_parser(words).parse_args(words)
        names = EXPERIMENTS[args.name].names(args.scale)
        if any(run_folder(get_recipe(name, args.scale, args.set), RESULTS / "runs").exists for name in names):
            found.append((page, words))
    return found


def test_some_pages_have_records():
    assert recorded_pages()


@pytest.mark.parametrize("page, words", recorded_pages(), ids=lambda value: getattr(value, "stem", ""))
def test_pages_say_what_the_records_of_their_runs_say(page, words, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(RESULTS, copy)
    (copy / page.name).unlink()
    assert cli.main([*words, "--finished", "--pages", str(copy), "--out", str(tmp_path / "runs")]) == 0
    assert (copy / page.name).read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


# The index


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_index_lists_every_page_and_every_verb():
    text = INDEX.read_text(encoding="utf-8")
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in LINK.findall(text)}
    of_the_web_site = {ROOT / "docs" / name for name in ("index.md", "contributing.md", "reference.md")}
    assert set((ROOT / "docs").glob("*.md")) - {INDEX} - of_the_web_site <= linked
    verbs = [cells[0].strip("`").split()[1] for cells in rows(text) if cells[0].startswith("`pinets ")]
    assert sorted(verbs) == sorted(VERBS)


def test_the_entry_points_of_the_index_exist():
    packages = {cells[0].strip("`"): cells[1] for cells in rows(INDEX.read_text(encoding="utf-8"))}
    packages = {package: cell for package, cell in packages.items() if " " not in package}
    names = [f"{package}.{name}" for package, cell in packages.items() for name in re.findall(r"`(\w+)`", cell)]
    assert "pinets.layers.CCP" in names
    assert not {name for name in names if not is_there(name)}


def test_the_worked_example_of_the_theory_runs():
    (code,) = examples((ROOT / "docs" / "theory.md").read_text(encoding="utf-8"))
    exec(compile(code, "theory.md", "exec"), {})


def test_the_pictures_of_the_theory_are_those_of_the_layers():
    drawing = ROOT / "docs" / "theory"
    polynomials = runpy.run_path(str(drawing / "draw.py"))["POLYNOMIALS"]
    for name, polynomial in polynomials.items():
        assert (drawing / f"{name}.svg").read_text(encoding="utf-8") == diagram(polynomial)


# Docstrings


def roles(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The targets of roles in the docstrings of a file, each with the classes that its docstring is in."""

    def visit(node: ast.AST, classes: list[str]) -> Iterator[tuple[str, list[str]]]:
        if isinstance(node, ast.ClassDef):
            classes = [*classes, node.name]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for target in ROLE.findall(node.value.value):
                yield target.removeprefix("~").removeprefix("."), classes
        for child in ast.iter_child_nodes(node):
            yield from visit(child, classes)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), [])


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def resolves(target: str, module: str, classes: list[str]) -> bool:
    """Whether a target is a full name, or one of its package, its module or a class around it."""
    around = [module.rpartition(".")[0], module]
    for name in classes:
        around.append(f"{around[-1]}.{name}")
    names = [f"{place}.{target}" for place in around] + [target] * ("." in target)
    return any(map(is_there, names)) or any(has_field(find(place), target) for place in around[2:])


def has_field(cls: type, name: str) -> bool:
    """Whether instances of a class have an attribute that the class itself need not have."""
    return re.search(rf"^ {{4}}{name}:|\bself\.{name}\b", inspect.getsource(cls), re.MULTILINE) is not None


WITH_ROLES = [path for path in sorted(SOURCE.rglob("*.py")) if ROLE.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", WITH_ROLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_roles_of_docstrings_resolve(path):
    assert not {target for target, classes in roles(path) if not resolves(target, module_of(path), classes)}


def test_the_check_of_roles_finds_wrong_ones(tmp_path):
    path = tmp_path / "file.py"
    path.write_text(
        '"""See :func:`certify`, :class:`~pinets.polynomial.Stp` and :func:`pinets.algebra.certify`."""\n'
        'class Step:\n    """:meth:`forward`, :attr:`body`."""\n    def f(self):\n        """:meth:`forwards`"""\n'
    )
    wrong = [target for target, classes in roles(path) if not resolves(target, "pinets.polynomial", classes)]
    assert wrong == ["pinets.polynomial.Stp", "forwards"]
