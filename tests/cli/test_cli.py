"""What holds for every verb: help, suggestions, exit codes, interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from pinets.cli import main
from pinets.cli.app import VERBS
from pinets.cli.arguments import print_json

START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # as at a terminal
RUN = START + "import sys; from pinets.cli import main; sys.exit(main())"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb, capsys):
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"example:\n  pinets {verb} " in text or f"example:\n  pinets {verb}\n" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("words", [["--help"], []], ids=["help", "nothing"])
def test_help_lists_every_verb(words, capsys):
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {verb}" in text for verb in VERBS)


def test_version(capsys):
    import pinets

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pinets {pinets.__version__}\n"


@pytest.mark.parametrize("module", ["pinets", "pinets.cli"])
def test_python_runs_it_as_a_module(module):
    finished = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("pinets ")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["certify", "--help"], ["certfy"]])
def test_help_does_not_wait_for_torch(words):
    code = (
        "import sys; from pinets.cli import main; main(sys.argv[1:]); "
        "print(sorted({'torch', 'numpy', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "words, answer",
    [
        (["certfy", "x"], "pinets: unknown verb 'certfy'; did you mean 'certify'?"),
        (["certify", "--inptu", "3", "x"], "pinets certify: unknown option '--inptu'; did you mean '--input'?"),
        (["certify", "--jsno"], "pinets certify: unknown option '--jsno'; did you mean '--json'?"),
        (["certify", "--inptu=3", "x"], "pinets certify: unknown option '--inptu'; did you mean '--input'?"),
        (["--verison"], "pinets: unknown option '--verison'; did you mean '--version'?"),
        (["certify", "CCP(4, 2, rnak=3, order=2)"], "CCP has no argument 'rnak'; did you mean 'rank'?"),
        (["certify", "CPC(4, 2, rank=3, order=2)"], "unknown layer 'CPC'; did you mean 'CCP'?"),
        (["certify", "--input", "3,y", "PowerSum(2)"], "expected a shape such as 16 or 3,32,32, got '3,y'"),
        (["certify", "--inp", "3", "PowerSum(2)"], "unknown option '--inp'; did you mean '--input'?"),
        (["certify", "PowerSum(2)"], "give it with --input"),
        (["certify"], "the following arguments are required: MODEL"),
        (["--traceback"], "the following arguments are required: VERB"),
        (["expand", "CCP(4, 2, rank=3, order=2)", "--output", "2"], "--output must be from 0 to 1, got 2"),
        (["expand", "CCP(4, 2, rank=3, order=2)", "--top", "0"], "expected a whole number from 1 on, got '0'"),
        (["certify", "absent.py:model"], "there is no file absent.py"),
        (["certify", "absent.module:model"], "there is no Python module 'absent.module'"),
        (["certify", "pinets.layers:CPC"], "pinets.layers has no 'CPC'; did you mean 'CCP'?"),
        (["certify", "pinets.layers:__all__"], "must be a module or a function that makes one, got list"),
    ],
)
def test_wrong_usage_exits_with_2_and_the_nearest_word(words, answer, capsys):
    assert main(words) == 2
    streams = capsys.readouterr()
    assert answer in streams.err
    assert streams.out == ""
    assert "Traceback" not in streams.err


def test_a_failure_exits_with_1_and_one_line(capsys, tmp_path):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"nonsense")
    assert main(["expand", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("pinets expand: ")
    assert "broken.safetensors" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [["--traceback", "expand", "X"], ["expand", "X", "--traceback"]])
def test_a_traceback_is_shown_on_request(words, capsys, tmp_path):
    path = str(tmp_path / "absent.safetensors")
    assert main([path if word == "X" else word for word in words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):")
    assert "FileNotFoundError" in error


def test_an_error_of_several_lines_is_told_in_one(monkeypatch, capsys):
    def fail(args):
        raise KeyError("a\nb")

    monkeypatch.setattr("pinets.cli.certify.run", fail)
    assert main(["certify", "X"]) == 1
    assert capsys.readouterr().err == "pinets certify: KeyError: 'a\\nb'\n"

    def fail_longer(args):
        raise RuntimeError(
            "first\n   second\nException raised from unpack at /torch/numbers.h:79\nframe #0: c10::Error"
        )

    monkeypatch.setattr("pinets.cli.certify.run", fail_longer)
    assert main(["certify", "X"]) == 1
    assert capsys.readouterr().err == "pinets certify: first second\n"


def test_interrupting_a_verb_exits_with_130_and_leaves_no_half_file(tmp_path):
    file = tmp_path / "slow.py"
    file.write_text("import time\n\n\ndef make():\n    print('under way', flush=True)\n    time.sleep(60)\n")
    words = ["export", f"{file}:make", "--to", "onnx", "--out", str(tmp_path / "model.onnx")]
    with subprocess.Popen(
        [sys.executable, "-B", "-c", RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "pinets export: interrupted\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_reader_that_has_enough_is_no_error():
    words = ["expand", "CCP(4, 2, rank=3, order=2)"]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="pinets")
    assert entry.load() is main


def test_json_has_null_for_numbers_that_are_not_finite(capsys):
    print_json({"ratio": [1.5, float("inf")], "score": (float("nan"), 2), "name": "größer"})
    text = capsys.readouterr().out
    refuse = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    assert json.loads(text, **refuse) == {"ratio": [1.5, None], "score": [None, 2], "name": "größer"}
