"""What an operator may ask of the logs, by name: for the command's options, which load nothing else."""

from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
