"""Encrypted inference: a network evaluated by a server that can read neither its input nor its output (CKKS)."""

from pinets.deploy.encrypted.circuit import Circuit
from pinets.deploy.encrypted.client import Client, make_client_keys, read_plan
from pinets.deploy.encrypted.compile import compile_network
from pinets.deploy.encrypted.errors import (
    EncryptedError,
    FileError,
    KeyMismatchError,
    NotCompilableError,
    PlanError,
    RangeWarning,
)
from pinets.deploy.encrypted.parameters import Parameters
from pinets.deploy.encrypted.plan import Plan
from pinets.deploy.encrypted.planner import make_plan, plan_network
from pinets.deploy.encrypted.server import Server, write_plan
from pinets.deploy.encrypted.trial import Trial, run_trial

__all__ = [
    "Circuit",
    "Client",
    "EncryptedError",
    "FileError",
    "KeyMismatchError",
    "NotCompilableError",
    "Parameters",
    "Plan",
    "PlanError",
    "RangeWarning",
    "Server",
    "Trial",
    "compile_network",
    "make_client_keys",
    "make_plan",
    "plan_network",
    "read_plan",
    "run_trial",
    "write_plan",
]
