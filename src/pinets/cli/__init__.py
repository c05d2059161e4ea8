"""The command line: one file per verb, which parses, calls one public function and prints."""

from pinets.cli.app import main

__all__ = ["main"]
