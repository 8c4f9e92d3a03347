"""Finding an application's declarations: ``--app module:attribute``, ``--docs PATH``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from knowledge_worker.config import Settings
from knowledge_worker.declarations import folder_collection, is_model_id
from knowledge_worker.errors import ConfigurationError, KnowledgeError
from knowledge_worker.knowledge import Knowledge

DEFAULT_LOCAL_MODEL: Final = "local/wordllama"
"""Needs no key and no network; what ``--docs`` uses unless ``KNOWLEDGE_MODEL`` names another."""


def load_knowledge(settings: Settings) -> Knowledge:
    """The application's declarations: ``--app module:attribute``, ``--docs PATH``, or both.

    Raises:
        ConfigurationError: nothing is named, or what is named cannot be loaded; the message says which.
    """
    model = settings.model or DEFAULT_LOCAL_MODEL
    if not is_model_id(model):
        raise ConfigurationError(
            'KNOWLEDGE_MODEL is no "<provider>/<model id>", such as "openai/text-embedding-3-small".'
        )
    folders = [folder_collection(path, model) for path in settings.docs]
    if settings.app is None:
        default = DEFAULT_LOCAL_MODEL if settings.model is None and settings.dev else None
        return Knowledge(folders, embedding_model=default, settings=settings)
    return _load_attribute(settings.app).with_settings(settings, *folders)


def _load_attribute(target: str) -> Knowledge:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f'"{target}" is no application: write module:attribute, such as app:knowledge.')
    if module_name.endswith(".py") or "/" in module_name:
        raise ConfigurationError(
            f'"{target}" names a file; the module is named instead: write {_module_of(module_name)}:{attribute}.'
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except KnowledgeError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f'There is no module "{module_name}" in {here} or among the installed packages.'
            ) from error
        raise ConfigurationError(f'Loading "{module_name}" failed: no module named "{error.name}".') from error
    except (Exception, SystemExit) as error:  # a module that exits would end the command without a word
        raise ConfigurationError(f'Loading "{module_name}" failed: {type(error).__name__}: {error}') from error
    value: object = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise ConfigurationError(
                f'The module "{module_name}" has no attribute "{attribute}".{_knowledge_in(module)}'
            ) from None
    if not isinstance(value, Knowledge):
        raise ConfigurationError(
            f'"{target}" is a {type(value).__name__}, not a Knowledge: '
            f"write {attribute} = Knowledge(collections=[...])."
        )
    return value


def _module_of(path: str) -> str:
    """The module that a file is, as seen from the working directory where it is below that."""
    file = Path(path).with_suffix("") if path.endswith(".py") else Path(path)
    if file.is_absolute() and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return file.name if file.is_absolute() or ".." in file.parts else ".".join(file.parts)


def _knowledge_in(module: ModuleType) -> str:
    """What could have been meant, as a further sentence."""
    names = sorted(name for name, value in vars(module).items() if isinstance(value, Knowledge))
    if not names:
        return " It holds no Knowledge: write knowledge = Knowledge(collections=[...])."
    return f" It has: {', '.join(names)}."
