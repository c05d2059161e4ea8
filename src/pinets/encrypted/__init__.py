"""Encrypted inference (CKKS): a server evaluates a network and can read neither its inputs nor its outputs."""

from pinets.encrypted.calibration import Source, draw_source, split_source
from pinets.encrypted.circuit import Circuit
from pinets.encrypted.client import Client, make_keys
from pinets.encrypted.compile import compile_network
from pinets.encrypted.errors import (
    EncryptedError,
    FileError,
    KeyMismatchError,
    NotCompilableError,
    PlanError,
    RangeWarning,
)
from pinets.encrypted.folders import (
    decrypt_file,
    encrypt_file,
    evaluate_file,
    make_key_files,
    open_client,
    read_circuit,
    read_plan,
    write_plan,
)
from pinets.encrypted.plan import Parameters, Plan
from pinets.encrypted.planner import make_plan, plan_network
from pinets.encrypted.preparation import Preparation, read_preparation, write_preparation
from pinets.encrypted.server import EvaluationKeys, Server
from pinets.encrypted.trial import Trial, run_trial

__all__ = [
    "Circuit",
    "Client",
    "EncryptedError",
    "EvaluationKeys",
    "FileError",
    "KeyMismatchError",
    "NotCompilableError",
    "Parameters",
    "Plan",
    "PlanError",
    "Preparation",
    "RangeWarning",
    "Server",
    "Source",
    "Trial",
    "compile_network",
    "decrypt_file",
    "draw_source",
    "encrypt_file",
    "evaluate_file",
    "make_key_files",
    "make_keys",
    "make_plan",
    "open_client",
    "plan_network",
    "read_circuit",
    "read_plan",
    "read_preparation",
    "run_trial",
    "split_source",
    "write_plan",
    "write_preparation",
]
