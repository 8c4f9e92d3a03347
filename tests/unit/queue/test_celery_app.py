"""The Celery application's settings and addresses."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from knowledge_worker.config import load_settings
from knowledge_worker.errors import ConfigurationError
from knowledge_worker.queue.celery import QUEUES, TICK_TASK, broker_url, create_celery


def app(**settings: Any) -> Celery:
    return create_celery(load_settings(**{"redis_url": "redis://:word@localhost:6399/4", **settings}))


def test_messages_are_hints_so_nothing_is_acknowledged_late_reserved_or_answered() -> None:
    conf = app().conf
    assert not conf.task_acks_late
    assert conf.worker_disable_prefetch
    assert conf.task_ignore_result
    assert conf.result_backend is None
    assert list(conf.accept_content) == ["json"]


def test_queues_are_emptied_ticks_first_and_no_other_is_made() -> None:
    conf = app().conf
    assert [queue.name for queue in conf.task_queues] == list(QUEUES) == ["control", "sync", "embed"]
    assert conf.broker_transport_options["queue_order_strategy"] == "priority"
    assert not conf.task_create_missing_queues


def test_the_broker_keys_are_prefixed_and_the_database_number_is_kept() -> None:
    celery = app()
    assert celery.conf.broker_transport_options["global_keyprefix"] == "kw:"
    assert celery.connection_for_write().virtual_host == "4"


def test_the_only_periodic_task_is_the_tick() -> None:
    schedule = app(tick_ms=1500).conf.beat_schedule
    assert [entry["task"] for entry in schedule.values()] == [TICK_TASK]
    assert schedule["tick"]["schedule"] == 1.5
    assert schedule["tick"]["options"]["queue"] == "control"


def test_an_open_address_shows_no_password() -> None:
    assert "word" not in app().connection_for_write().as_uri()


def test_without_an_address_it_says_which_variable_to_set() -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_REDIS_URL"):
        create_celery(load_settings())


def test_certificates_are_checked_unless_the_address_says_otherwise() -> None:
    strict = app(redis_url="rediss://cache:6380/0")
    assert strict.conf.broker_use_ssl == {"ssl_cert_reqs": "required"}
    lax = app(redis_url="rediss://cache:6380/0?ssl_cert_reqs=none")
    assert not lax.conf.broker_use_ssl


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("redis://host/1", "redis://host/1"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock?virtual_host=0"),
        ("unix://user:word@/run/redis.sock?db=3", "redis+socket://user:word@/run/redis.sock?virtual_host=3"),
    ],
)
def test_a_unix_socket_is_spelled_as_celery_does(redis_url: str, expected: str) -> None:
    assert broker_url(redis_url) == expected
