"""``pinets eval faces``: verification and identification, of a run or of embeddings from anywhere."""

from pinets.cli.eval_faces.arguments import add_parser

__all__ = ["add_parser"]
