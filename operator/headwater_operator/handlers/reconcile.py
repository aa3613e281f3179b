"""One round for one StreamApp: observe, decide, write what is intended, act.

    look   decide from what was read last, and newer Leases and lags; nothing is written
    round  read everything anew, decide, write the status, act

A look that would do something is followed by a round, so everything that is written was decided
from what was read a moment before. A round may be killed anywhere: nothing is kept but memory that
can be lost without harm.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.model.lifecycle import ClientState
from headwater_operator.act.events import Herald
from headwater_operator.act.gate import Gate, HeldUpError, OutdatedDecisionError
from headwater_operator.act.upkeep import Upkeep
from headwater_operator.act.workers import Actor
from headwater_operator.actions import StartDriver, StartWorker, describe_action
from headwater_operator.decide import Memory, decide
from headwater_operator.handlers.app import App
from headwater_operator.handlers.facts import facts_of
from headwater_operator.handlers.intent import operation_of
from headwater_operator.handlers.names import AppName, clash, name_of
from headwater_operator.handlers.problems import refused
from headwater_operator.handlers.removal import let_go, remove
from headwater_operator.handlers.resetting import end_reset
from headwater_operator.handlers.rest import ANSWER_MS, go_to_rest, lacks_lease, only_asks, rests
from headwater_operator.handlers.shard import NotOursError, Shard, outrank
from headwater_operator.handlers.sharing import is_in_doubt, is_needed, share
from headwater_operator.handlers.streamactions import Actions, is_of_interest, reads_unwatched
from headwater_operator.handlers.telling import tell_changes
from headwater_operator.handlers.waiting import ask, is_to_ask, with_missing_files
from headwater_operator.kube.clock import boot_ms, minutes_since_1970, whole_time
from headwater_operator.kube.election import NotLeadingError
from headwater_operator.kube.errors import ApiUnavailableError, KubeApiError
from headwater_operator.manifests.names import PAUSE_ANNOTATION
from headwater_operator.observe.lags import with_lags
from headwater_operator.observe.loads import with_loads
from headwater_operator.observe.snapshot import Observer
from headwater_operator.rollout import Roll
from headwater_operator.status import Facts, first_conditions, full_status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.appstatus import AppStatus
    from headwater_operator.actions import Action
    from headwater_operator.decide import Decision
    from headwater_operator.handlers.leases import Key, LeaseBook
    from headwater_operator.handlers.metrics import Metrics
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.kube.election import Election
    from headwater_operator.manifests.settings import Installation
    from headwater_operator.observe.numbers import NumbersSource
    from headwater_operator.status import Problem
    from headwater_operator.views import AppView

log = logging.getLogger(__name__)

NEVER: Final = -1
"""Instead of a pause: nothing is to be done until somebody says otherwise."""

_SOON_MS: Final = 100
_LOOK_MS: Final = 2_000
"""Between two looks: Leases are not read more often."""
_UNWATCHED_MS: Final = 5_000
"""How old may be what was read of Jobs and VolumeSnapshots that an action waits for."""
_HELD_UP_MS: Final = 2_000
_PAUSED_MS: Final = 30_000
_INVALID_MS: Final = 10_000
_REMOVAL_MS: Final = 1_000
_FIRST_RETRY_MS: Final = 250
_LAST_RETRY_MS: Final = 30_000


class Reconciler:
    """Sees to StreamApps. Each is in one pair of hands at a time; several may be at once.

    Args:
        api: the API server.
        election: under which it may write.
        leases: signs of life, and the clock of the decisions.
        installation: defaults of this installation.
        metrics: numbers.
        numbers: by namespace, workers that can be asked for exact lags.
        now_ms: a clock that never goes back.
        clock: the time of day.
        shard: the namespaces that are ours; all if it is not given.
    """

    def __init__(
        self,
        api: KubeApi,
        election: Election,
        leases: LeaseBook,
        installation: Installation,
        metrics: Metrics,
        numbers: Callable[[str], NumbersSource],
        now_ms: Callable[[], int] = boot_ms,
        clock: Callable[[], str] = whole_time,
        *,
        shard: Shard | None = None,
    ) -> None:
        self._api = api
        self._election = election
        self._leases = leases
        self._installation = installation
        self._metrics = metrics
        self._numbers = numbers
        self._now_ms = now_ms
        self._clock = clock
        self._shard = shard or Shard(api)
        self.gate = Gate(election.require)  # the watches ask it, too
        self._actions = Actions(api, self.gate, clock)
        self._observer = Observer(api, installation, now_ms)
        self._guard = threading.Lock()
        self._apps: dict[Key, App] = {}
        self._names: dict[Key, AppName] = {}

    # -- what others say and ask -----------------------------------------------------------------

    def changed(self, key: Key, *, has_actions: bool = False) -> None:
        """Hear that something about a StreamApp may have changed: the next step reads it anew.

        Args:
            key: of the StreamApp.
            has_actions: there are StreamActions about it, which are read anew, too.
        """
        if not self._shard.has(key[0]):
            return
        app = self._app(key)
        app.is_dirty = True
        app.has_actions |= has_actions

    def known(self) -> Mapping[Key, AppView | None]:
        """Return what was read last of every StreamApp."""
        with self._guard:
            return {key: app.view for key, app in self._apps.items()}

    def learn_names(self, views: Mapping[Key, AppView], unread: frozenset[str | None]) -> None:
        """Hear of all StreamApps there are, so that no two of them are one application."""
        found = {key: name for key, view in views.items() if (name := name_of(view)) is not None}
        with self._guard:
            # For all we know, those of a namespace that could not be read run as before.
            before = {key: name for key, name in self._names.items() if key[0] in unread}
            self._names = before | found

    def read(self, manifest: dict[str, object]) -> AppView:
        """Return a StreamApp without what belongs to it, from its manifest."""
        return self._observer.read_app(manifest)

    def let_go(self, namespace: str) -> None:
        """See to a namespace that cannot be read, as far as rights go: it may be on its way out."""
        with contextlib.suppress(KubeApiError, NotLeadingError):
            let_go(self._api, self.gate, namespace)

    # -- a step ----------------------------------------------------------------------------------

    def step(self, key: Key) -> int:
        """Do the next thing for one StreamApp.

        Returns:
            after how many milliseconds to come back, or :data:`NEVER`.

        Raises:
            NotLeadingError: this operator has to end.
        """
        if not self._shard.has(key[0]):
            return self._hand_over(key)
        app = self._app(key)
        again_ms = self._look(key, app)
        if again_ms is not None and not self._must_share_again(app):
            return again_ms
        began_ms = self._now_ms()
        result, again_ms = self._tried(key, app, self._round if again_ms is None else self._again)
        seconds = (self._now_ms() - began_ms) / 1000
        self._metrics.reconciles.labels(result).observe(seconds)
        return again_ms

    def _tried(
        self, key: Key, app: App, go: Callable[[Key, App], tuple[str, int]]
    ) -> tuple[str, int]:
        """Go a round, whatever becomes of it; return how it ended, and the pause."""
        try:
            result, again_ms = go(key, app)
        except NotLeadingError:
            raise
        except NotOursError as error:
            log.info("%s/%s: %s", *key, error)
            return "handed_over", self._hand_over(key)
        except OutdatedDecisionError as outdated:
            log.info("%s/%s: deciding afresh: %s", *key, outdated)
            app.is_dirty = True
            return "outdated", _SOON_MS
        except (KubeApiError, SpecError) as error:
            app.is_dirty = True
            app.failures += 1
            log.warning("%s/%s: %s", *key, error)
            retry_ms = min(_LAST_RETRY_MS, _FIRST_RETRY_MS << min(app.failures, 10))
            if isinstance(error, ApiUnavailableError):
                return "error", max(retry_ms, int(error.retry_after_s * 1000))
            app.refused = (refused(error),)
            self._say_what_is_wrong(app)
            return "error", retry_ms
        app.failures, app.refused = 0, ()
        return result, again_ms

    def _say_what_is_wrong(self, app: App) -> None:
        """Report what the API server has refused, if it takes at least that."""
        view = app.view
        if view is None or view.is_deleting:
            return
        try:
            self._report(app, view, self._looking_on(app, view))
        except (KubeApiError, OutdatedDecisionError) as error:
            log.warning("%s/%s: no status: %s", view.owner.namespace, view.owner.name, error)

    # -- look ------------------------------------------------------------------------------------

    def _look(self, key: Key, app: App) -> int | None:
        """Decide without reading anything; return the pause, ``None`` if a round is due."""
        view = app.view
        if app.is_dirty or view is None or view.app is None or view.is_deleting or view.is_paused:
            return None
        is_old = self._now_ms() - app.read_ms >= _UNWATCHED_MS
        is_budget_due = view.pods and app.upkeep.is_budget_due(self._now_ms())
        is_to_read = is_budget_due or (is_old and reads_unwatched(view.actions))
        if is_to_read or is_to_ask(app, self._now_ms()) or lacks_lease(app, self._leases.of(key)):
            return None
        if rests(app, key, self._leases, self._now_ms()):
            return _LOOK_MS
        view = self._allowed(key, view.with_leases(self._leases.of(key)))
        decision = self._decided(app, view)
        if decision.actions:
            return None
        facts = self._facts(app, view, decision.status, decision.roll)
        is_new = self._status(app, view, facts, ()) != app.status
        if is_new or self._actions.are_due(view, decision):
            return None
        app.memory = decision.memory
        self._metrics.looks.inc()
        go_to_rest(app, view, decision, self._now_ms())
        return max(decision.again_after_ms, _LOOK_MS)

    # -- round -----------------------------------------------------------------------------------

    def _round(self, key: Key, app: App) -> tuple[str, int]:
        # Before reading: what changes meanwhile is read again.
        app.is_dirty, app.rests_until_ms = False, 0
        app.read_ms = self._now_ms()
        view = self._observer.look(*key, before=app.view, with_actions=app.has_actions)
        if view is None or (view.is_deleting and not view.has_finalizer):
            self._forget(key)
            return "gone", self._actions.of_none(key, view)
        view = view.with_wishes(self._clock())
        app.view, app.status, app.has_actions = view, view.status, is_of_interest(view.actions)
        self._outrank(app, view)
        app.forget_stuck(view)
        with self._guard:
            if (name := name_of(view)) is not None:
                self._names[key] = name
        if view.is_deleting:
            self._actions.end(view, f"the StreamApp {view.owner.name} is being deleted")
            return self._remove(app, view)
        if not view.has_finalizer:
            app.upkeep.add_finalizer(view)
            app.is_dirty = True
            return "acted", _SOON_MS
        if not view.status.conditions:
            first = first_conditions(view.generation, self._clock())
            self._write(app, view, replace(view.status, conditions=first))
        if view.is_paused:
            self._report(app, view, self._looking_on(app, view))
            self._actions.hold(
                view, "OperatorPaused", f"take the annotation {PAUSE_ANNOTATION} away"
            )
            return "paused", _PAUSED_MS
        view = self._allowed(key, view)
        if view.app is None:
            status = replace(view.status, state=ClientState.CREATED, reason="nothing runs yet")
            self._report(app, view, self._facts(app, view, status, Roll()))
            self._actions.hold(
                view, "InvalidSpec", "the StreamApp cannot be used: correct it first"
            )
            return "invalid", _INVALID_MS
        return self._act(app, view)

    def _allowed(self, key: Key, view: AppView) -> AppView:
        """Stop a StreamApp that must not run beside an older one."""
        with self._guard:
            problem = clash(key, self._names)
        if problem is None or view.app is None:
            return view
        stopped = replace(view.app, spec=replace(view.app.spec, suspend=True))
        # What a reset would delete is the other one's.
        return replace(
            view, app=stopped, spec_problem=problem, is_resetting=False, reset_action=None
        )

    def _decided(self, app: App, view: AppView) -> Decision:
        clock = self._clock() if view.actions else ""
        view = self._actions.remembered(view)
        minute = minutes_since_1970()
        observed = view.observed(self._election.generation, minute=minute, clock=clock)
        now_ms = self._leases.now_ms(view.owner.key)
        endpoints = {name: pod.endpoint for name, pod in view.pods.items()}
        numbers = self._numbers(view.owner.key[0])
        observed = with_lags(observed, endpoints, numbers)
        observed = with_loads(observed, endpoints, numbers, app.memory.scaling, now_ms)
        observed = with_missing_files(observed, app, view)
        observed = app.driver.observe(observed, view.driver_pod, numbers, self._now_ms())
        decision = decide(observed, app.memory, now_ms)
        app.heed(decision)
        return decision

    def _act(self, app: App, view: AppView) -> tuple[str, int]:
        assert view.app is not None
        if view.status.failure is not None and view.status.observed_generation != view.generation:
            # It was given up, and has been changed: what was said before is not held against it.
            app.memory = Memory()
        decision = self._decided(app, view)
        ask(self._api, app, view, self._now_ms())
        app.memory = decision.memory
        facts = self._facts(app, view, decision.status, decision.roll)
        self._report(app, view, facts, decision.actions)
        if self._actions.write(view, decision, self._herald(view)):
            app.is_dirty = True
        app.upkeep.keep_claims(view)
        app.upkeep.grow_claims(view, self._now_ms())
        app.upkeep.delete_leftovers(view)
        app.upkeep.ensure_leases(view)
        app.held_up = self._share(app, view, decision.actions)
        if view.is_resetting and app.memory.reset_done and not view.workers:
            return end_reset(app, view, self._herald(view), self._actions)
        if not decision.actions and not app.held_up:
            app.upkeep.keep_budget(view, self._now_ms())
            self._tidy(app, view)
            return "idle", decision.again_after_ms
        pause_ms = ANSWER_MS if only_asks(app, view, decision) else _SOON_MS
        app.held_up += self._carry_out(app, view, decision.actions)
        # What a watch has told meanwhile is not forgotten.
        app.is_dirty |= bool(app.held_up) or pause_ms == _SOON_MS
        return ("held_up", _HELD_UP_MS) if app.held_up else ("acted", pause_ms)

    def _share(
        self, app: App, view: AppView, actions: tuple[Action, ...] = ()
    ) -> tuple[Problem, ...]:
        is_doubted = is_in_doubt(view, app.memory, self._leases.now_ms(view.owner.key), actions)
        if app.upkeep.must_share_again(self._now_ms(), is_doubted=is_doubted):
            # One that led before, and was frozen in the middle of a write, may have left another.
            app.tidied = set()
        return share(app.upkeep, view, self._now_ms(), is_doubted=is_doubted)

    def _must_share_again(self, app: App) -> bool:
        if app.view is None or not is_needed(app.view):
            return False
        is_doubted = is_in_doubt(app.view, app.memory, self._leases.now_ms(app.view.owner.key))
        return app.upkeep.must_share_again(self._now_ms(), is_doubted=is_doubted)

    def _again(self, _: Key, app: App) -> tuple[str, int]:
        """Apply what workers share once more, and tidy; a round if it does not work, to say why."""
        assert app.view is not None
        if self._share(app, app.view):
            app.is_dirty = True
        self._tidy(app, app.view)
        return "shared", _LOOK_MS

    def _tidy(self, app: App, view: AppView) -> None:
        """Forget revisions that nobody runs or goes back to: after a change, and now and then."""
        revision = app.status.revision
        keep = {view.revision, revision.current, revision.update, revision.last_stable}
        keep |= {pod.revision for pod in view.own_pods.values()}
        if app.tidied != keep:
            app.upkeep.delete_old_configs(view, frozenset(keep))
            app.tidied = keep

    def _carry_out(
        self, app: App, view: AppView, actions: tuple[Action, ...]
    ) -> tuple[Problem, ...]:
        actor = Actor(self._api, self.gate, view, self._installation)
        herald = self._herald(view)
        held_up: list[Problem] = []
        for action in actions:
            log.info("%s/%s: %s", view.owner.namespace, view.owner.name, describe_action(action))
            if isinstance(action, StartWorker | StartDriver) and app.held_up:
                continue  # It could not do without what workers share.
            try:
                news = actor.carry_out(action)
            except HeldUpError as error:
                held_up.append(error.problem)
                if isinstance(action, StartWorker):
                    app.stuck[action.worker] = error.problem
                continue
            self._metrics.actions.labels(action.reason.name).inc()
            if news is not None:
                herald.tell(news)
        return tuple(held_up)

    def _remove(self, app: App, view: AppView) -> tuple[str, int]:
        now_ms = self._now_ms()
        waits_for = remove(self._api, self.gate, app.upkeep, view, app.going, now_ms)
        app.is_dirty = True
        if not waits_for:
            return "acted", _SOON_MS
        going = replace(
            view.status,
            state=ClientState.PENDING_SHUTDOWN,
            reason=waits_for,
            failure=None,
            operation=None,
        )
        self._report(app, view, self._facts(app, view, going, Roll()))
        return "removing", _REMOVAL_MS

    # -- what is reported ------------------------------------------------------------------------

    def _facts(self, app: App, view: AppView, decided: AppStatus, roll: Roll) -> Facts:
        now_ms = self._leases.now_ms(view.owner.key)
        return facts_of(app, view, decided, roll, now_ms, waited_ms=self._now_ms())

    def _looking_on(self, app: App, view: AppView) -> Facts:
        """Return the facts while what was decided before stands: nothing more is acted on."""
        facts = self._facts(app, view, app.status, Roll())
        return replace(facts, acted_on=app.status.observed_generation)

    def _status(
        self, app: App, view: AppView, facts: Facts, actions: tuple[Action, ...]
    ) -> AppStatus:
        now = self._clock()
        if view.app is not None and not view.is_deleting:
            leaving = [
                name for name, known in app.memory.workers.items() if known.leaving_ms is not None
            ]
            operation = operation_of(view, actions, facts.roll, app.status, now, leaving)
            facts = replace(facts, decided=replace(facts.decided, operation=operation))
        return full_status(facts, app.status, selector=view.selector, updated=view.updated, now=now)

    def _report(
        self, app: App, view: AppView, facts: Facts, actions: tuple[Action, ...] = ()
    ) -> None:
        before = app.status
        status = self._status(app, view, facts, actions)
        if status == before:
            return
        self._write(app, view, status)
        tell_changes(self._herald(view), view, before, status)
        self._count_apps()

    def _write(self, app: App, view: AppView, status: AppStatus) -> None:
        app.upkeep.write_status(view, status)
        app.status = status
        if app.view is not None:
            app.view = replace(app.view, status=status)

    def _herald(self, view: AppView) -> Herald:
        election = self._election
        return Herald(self._api, view.owner, election.identity, election.require)

    def _count_apps(self) -> None:
        with self._guard:
            self._metrics.count_apps(
                {key: app.status for key, app in self._apps.items()},
                {key: app.workers_not_ready for key, app in self._apps.items()},
                {key: app.memory.scaling.word for key, app in self._apps.items()},
            )

    # -- memory ----------------------------------------------------------------------------------

    def _app(self, key: Key) -> App:
        with self._guard:
            if key not in self._apps:
                self._apps[key] = App(upkeep=Upkeep(self._api, self.gate, self._installation))
            return self._apps[key]

    def _outrank(self, app: App, view: AppView) -> None:
        is_first = app.outranked_in != self._election.generation
        app.outranked_in = outrank(self._election, self._shard, view, is_first=is_first)
        self._metrics.generation.set(app.outranked_in)

    def _hand_over(self, key: Key) -> int:
        """Forget a StreamApp that another operator runs, but for its name, which stays in use."""
        with self._guard:
            is_known = self._apps.pop(key, None) is not None
        if is_known:
            log.info("%s/%s: handed over to the operator of its namespace", *key)
            self._count_apps()
        return NEVER

    def _forget(self, key: Key) -> None:
        with self._guard:
            self._apps.pop(key, None)
            self._names.pop(key, None)
        self._count_apps()
