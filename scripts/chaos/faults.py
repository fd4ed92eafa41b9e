# SPDX-License-Identifier: Apache-2.0
"""The faults of a run. A fault is a story: a generator that strikes, yields the seconds to wait (or a condition to wait for),
and puts right again. It draws all that it needs in the beginning, so that a seed gives the same faults however long they take."""
import signal
from dataclasses import dataclass
from typing import Callable


def kill_reducer(run, draw):
    reducer, away_s = draw.choice(run.reducers), draw.uniform(0, 1.5)
    run.tell(f"{reducer.name} for {away_s:.2f} s")
    reducer.kill()
    yield away_s
    reducer.start()


def kill_in_a_row(run, draw):
    """The second one while the workers are agreeing on how to go on without the first, or soon after."""
    victims, apart_s, away_s = draw.sample(run.reducers, 2), draw.uniform(0, 0.05), draw.uniform(0, 1)
    run.tell(f"{victims[0].name}, {1e3 * apart_s:.0f} ms later {victims[1].name}, for {away_s:.2f} s")
    victims[0].kill()
    yield apart_s
    victims[1].kill()
    yield away_s
    for reducer in victims:
        reducer.start()


def kill_newcomer(run, draw):
    """Killed again while it is on its way into the job."""
    reducer, lived_s = draw.choice(run.reducers), draw.uniform(0, 0.3)
    run.tell(f"{reducer.name}, and again {1e3 * lived_s:.0f} ms after its start")
    reducer.kill()
    reducer.start()
    yield lived_s
    reducer.kill()
    reducer.start()


def kill_all_reducers(run, draw):
    """The workers sum for each other until one is back."""
    order, away_s, apart_s = draw.sample(run.reducers, len(run.reducers)), draw.uniform(0.1, 2), draw.uniform(0, 0.5)
    run.tell(f"for {away_s:.2f} s")
    for reducer in order:
        reducer.kill()
    yield away_s
    for reducer in order:
        reducer.start()
        yield apart_s


def drain_reducer(run, draw):
    reducer, away_s = draw.choice(run.reducers), draw.uniform(0, 0.5)
    run.tell(f"{reducer.name} by SIGTERM, away for {away_s:.2f} s")
    reducer.signal(signal.SIGTERM)
    yield reducer.ended
    if reducer.wait() != 0:
        run.fail("other", f"{reducer.name} ended with {reducer.wait()} after SIGTERM")
    yield away_s
    reducer.start()


def kill_worker(run, draw):
    """The others go on without it; a process started again for its rank is taken in."""
    worker, away_s = draw.choice(run.workers), draw.uniform(0, 1)
    run.tell(f"{worker.name} for {away_s:.2f} s")
    worker.kill()
    yield away_s
    worker.start()


def kill_two_workers(run, draw):
    """Of four there are not enough left: the two wait for one to come back."""
    victims, apart_s, away_s = draw.sample(run.workers, 2), draw.uniform(0, 0.05), draw.uniform(0, 1)
    run.tell(f"{victims[0].name}, {1e3 * apart_s:.0f} ms later {victims[1].name}, for {away_s:.2f} s")
    victims[0].kill()
    yield apart_s
    victims[1].kill()
    yield away_s
    for worker in victims:
        worker.start()


def kill_worker_newcomer(run, draw):
    worker, lived_s = draw.choice(run.workers), draw.uniform(0, 0.3)
    run.tell(f"{worker.name}, and again {1e3 * lived_s:.0f} ms after its start")
    worker.kill()
    worker.start()
    yield lived_s
    worker.kill()
    worker.start()


def kill_worker_and_reducer(run, draw):
    victims, apart_s, away_s = [draw.choice(run.workers), draw.choice(run.reducers)], draw.uniform(0, 0.05), draw.uniform(0, 1)
    draw.shuffle(victims)
    run.tell(f"{victims[0].name}, {1e3 * apart_s:.0f} ms later {victims[1].name}, for {away_s:.2f} s")
    victims[0].kill()
    yield apart_s
    victims[1].kill()
    yield away_s
    for member in victims:
        member.start()


def pause(member, seconds):
    member.signal(signal.SIGSTOP)
    yield seconds
    member.signal(signal.SIGCONT)


def pause_reducer(run, draw):
    reducer, seconds = draw.choice(run.reducers), draw.uniform(0.1, 0.6) * run.heartbeat_s
    run.tell(f"{reducer.name} for {seconds:.2f} s")
    yield from pause(reducer, seconds)


def pause_worker(run, draw):
    worker, seconds = draw.choice(run.workers), draw.uniform(0.1, 0.6) * run.heartbeat_s
    run.tell(f"{worker.name} for {seconds:.2f} s")
    yield from pause(worker, seconds)


def silence_reducer(run, draw):
    reducer, seconds = draw.choice(run.reducers), run.heartbeat_s + draw.uniform(1.1, 2)
    run.tell(f"{reducer.name} for {seconds:.2f} s")
    yield from pause(reducer, seconds)


def cut(run, reducer, silent, seconds):
    run.hosts.cut(reducer.host, silent)
    yield seconds
    run.hosts.heal(reducer.host)


def cut_silently(run, draw):
    reducer, seconds = draw.choice(run.reducers), run.heartbeat_s + draw.uniform(1.1, 2)
    run.tell(f"{reducer.name} for {seconds:.2f} s")
    yield from cut(run, reducer, True, seconds)


def pull_cable(run, draw):
    reducer, seconds = draw.choice(run.reducers), run.heartbeat_s + draw.uniform(1.1, 2)
    run.tell(f"{reducer.name} for {seconds:.2f} s")
    yield from cut(run, reducer, False, seconds)


def cut_shortly(run, draw):
    reducer, seconds = draw.choice(run.reducers), draw.uniform(0.05, 0.3) * run.heartbeat_s
    run.tell(f"{reducer.name} for {seconds:.2f} s")
    yield from cut(run, reducer, True, seconds)


@dataclass(frozen=True)
class Kind:
    name: str
    weight: int  # so many in each deck of faults
    story: Callable
    loses_worker: bool = False  # its calls may end with peer_lost; the others go on with redsum_resume
    needs_cables: bool = False
    unnoticed: bool = False  # too short for anybody to be given up: the job must stay in its epoch
    median_limit_s: float | None = None  # of the extra time of a step
    silence: bool = False  # and no step may take longer than the heartbeat limit and 1 s more


MEDIAN_S = 0.3
KINDS = (
    Kind("kill a reducer", 14, kill_reducer, median_limit_s=MEDIAN_S),
    Kind("kill two reducers", 2, kill_in_a_row, median_limit_s=MEDIAN_S),
    Kind("kill a reducer twice", 1, kill_newcomer, median_limit_s=MEDIAN_S),
    Kind("kill all reducers", 2, kill_all_reducers),
    Kind("kill a worker", 6, kill_worker, loses_worker=True),
    Kind("kill two workers", 1, kill_two_workers, loses_worker=True),
    Kind("kill a worker twice", 1, kill_worker_newcomer, loses_worker=True),
    Kind("kill worker and reducer", 2, kill_worker_and_reducer, loses_worker=True),
    Kind("drain a reducer", 1, drain_reducer),
    Kind("stop a reducer shortly", 1, pause_reducer, unnoticed=True),
    Kind("stop a worker shortly", 1, pause_worker, unnoticed=True),
    Kind("stop a reducer", 1, silence_reducer, silence=True),
    Kind("cut a link shortly", 1, cut_shortly, needs_cables=True, unnoticed=True),
    Kind("cut a link silently", 1, cut_silently, needs_cables=True, silence=True),
    Kind("pull a cable", 1, pull_cable, needs_cables=True, silence=True),
)


def deal(kinds, draw):
    """Endless: decks of all kinds by weight, each shuffled."""
    while True:
        deck = [kind for kind in kinds for _ in range(kind.weight)]
        draw.shuffle(deck)
        yield from deck
