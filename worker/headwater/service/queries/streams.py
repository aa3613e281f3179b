"""What a program asks of its own ``KafkaStreams``: IQv2, read-only views, metadata.

This instance is the only one of its application: what it has not, nobody has.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    QueryError,
    StreamsNotStartedError,
    StreamsStoppedError,
    UnknownStateStoreError,
)
from headwater.ids import TaskId, TopicPartition
from headwater.model.lifecycle import ClientState
from headwater.model.partitions import plan, topics_to_describe
from headwater.model.positions import Position
from headwater.model.queries import (
    FailureReason,
    QueryResult,
    StateQueryRequest,
    StateQueryResult,
)
from headwater.model.reporting import changelog_of
from headwater.model.storemeta import (
    NOT_AVAILABLE,
    HostInfo,
    KeyQueryMetadata,
    LagInfo,
    StoreQueryParameters,
    StreamsMetadata,
)
from headwater.native.queries.values import Standing, StoreRequest
from headwater.processor.resolving import store_serdes
from headwater.service.queries.client import QueryClient
from headwater.service.queries.forms import StoreForms, form_of
from headwater.service.queries.views import View, view_of
from headwater.state.asks import Offset
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.config import StreamsConfig
    from headwater.model.queries import QueryResult as Result
    from headwater.model.topology import Topology
    from headwater.native.queries.values import Place
    from headwater.serde import Serde
    from headwater.service.duties import Duties
    from headwater.service.queries.client import Asked
    from headwater.service.queries.forms import Form
    from headwater.service.worker import Worker


class InteractiveQueries:
    """The half of ``KafkaStreams`` that answers questions about its state."""

    _config: StreamsConfig
    _topology: Topology
    _state: ClientState
    _worker: Worker | None
    _duties: Duties
    _client: QueryClient | None = None
    _client_guard = threading.Lock()

    @property
    def state_token(self) -> str:
        """What callers of ``/state`` show as ``Authorization: Bearer``; empty in a pod.

        It is also in the file ``embedded.token`` of the application's state, for this user alone.
        """
        return "" if self._worker is None else self._worker.queries.token

    # ---- IQv2 ----------------------------------------------------------------------------------

    def query(self, request: StateQueryRequest) -> StateQueryResult[Any]:
        """Ask the partitions of a store (``KafkaStreams.query``, KIP-796).

        What is read was committed; it is at most a second behind the last commit, and as new
        as the request's bound. StreamThreads are not stopped for it.

        Raises:
            QueryError: the request has no query.
            SerializationError: the store's serde does not take the key.
            UnknownStateStoreError: there is no such store.
            StreamsNotStartedError: the application was not started.
            StreamsStoppedError: it has ended.
        """
        if request.query is None:
            raise QueryError(
                f"the request for store {request.store_name} has no query: with_query(...)"
            )
        form = form_of(request.query)
        if request.store_name in self._topology.global_stores:
            self._check_state()
            failure: Result[Any] = QueryResult(
                position=Position(),
                failure_reason=FailureReason.UNKNOWN_QUERY_TYPE,
                failure_message="global stores do not know this kind of query: use store()",
            )
            return StateQueryResult(partition_results={}, global_result=failure)
        forms = self._forms_of(request.store_name)
        knows = form.knows(forms.spec, request.query)
        asked = self._queries().ask(
            StoreRequest(
                store=request.store_name,
                ask=form.ask(forms, request.query) if knows else None,
                partitions=request.partitions,
                require_active=request.is_require_active,
                bound=request.position_bound.position,
            )
        )
        return StateQueryResult(
            partition_results={
                one.answer.partition: _result(one, forms, form, request) for one in asked
            }
        )

    # ---- IQv1 ----------------------------------------------------------------------------------

    def store(self, parameters: StoreQueryParameters) -> View:
        """Return a read-only view of a store (``KafkaStreams.store``, KIP-562).

        Raises:
            UnknownStateStoreError: there is no such store, or it is of another type.
            StreamsNotStartedError: the application was not started.
            StreamsStoppedError: it has ended.
            StreamsRebalancingError: a partition is being restored or moved; try again.
            InvalidStateStorePartitionError: it has no such partition.
            InvalidStateStoreError: it cannot be read now.
        """
        return view_of(parameters, self._forms_of(parameters.store_name), self._queries())

    # ---- metadata ------------------------------------------------------------------------------

    def query_metadata_for_key(
        self,
        store_name: str,
        key: Any,
        key_serde: Serde[Any] | None = None,
        *,
        partitioner: Callable[[Any, int], int] | None = None,
    ) -> KeyQueryMetadata:
        """Say which partition of a store has a key, and where (``queryMetadataForKey``, KIP-535).

        Args:
            store_name: the store.
            key: looked for; it need not exist.
            key_serde: of the key; the store's unless given.
            partitioner: takes the key and the number of partitions; Kafka's unless given.

        Returns:
            ``NOT_AVAILABLE`` while the task is being moved.

        Raises:
            UnknownStateStoreError: there is no such store.
            KafkaUnavailableError: no broker answers.
        """
        forms = self._forms_of(store_name)
        if store_name in self._topology.global_stores:
            return KeyQueryMetadata(active_host=self._host(), partition=-1)
        topic = changelog_of(self._config.application_id, forms.spec)
        data = forms.bytes_of(key) if key_serde is None else key_serde.serializer(topic)(key)
        subtopology = self._subtopology_of(store_name)
        tasks = self._tasks()
        partitions = sum(task.subtopology == subtopology for task in tasks)
        if partitioner is None:
            partition = partition_for_key(data, partitions)
        else:
            partition = partitioner(key, partitions)
        place = self._places().get(TaskId(subtopology, partition))
        if place is None or place.standing is not Standing.RUNNING:
            return NOT_AVAILABLE
        return KeyQueryMetadata(active_host=self._host(), partition=partition)

    def metadata_for_all_streams_clients(self) -> tuple[StreamsMetadata, ...]:
        """Say what each instance has (``metadataForAllStreamsClients``, KIP-744): there is one.

        Raises:
            StreamsNotStartedError: the application was not started.
            StreamsStoppedError: it has ended.
            KafkaUnavailableError: no broker answers.
        """
        places = self._places()
        inputs = self._tasks()
        groups = {task.subtopology for task in places}
        return (
            StreamsMetadata(
                host_info=self._host(),
                state_store_names=frozenset(
                    spec.name
                    for group in self._topology.subtopologies
                    if group.id in groups
                    for spec in group.stores
                )
                | frozenset(self._topology.global_stores),
                topic_partitions=frozenset(
                    partition for task in places for partition in inputs.get(task, ())
                ),
            ),
        )

    def streams_metadata_for_store(self, store_name: str) -> tuple[StreamsMetadata, ...]:
        """Say which instances have partitions of a store (``streamsMetadataForStore``).

        Raises:
            UnknownStateStoreError: there is no such store.
            KafkaUnavailableError: no broker answers.
        """
        self._forms_of(store_name)
        every = self.metadata_for_all_streams_clients()
        return tuple(one for one in every if store_name in one.state_store_names)

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Say how far each store here is behind its changelog, by store and partition (KIP-535).

        A store whose task runs is at the end.

        Raises:
            StreamsNotStartedError: the application was not started.
            StreamsStoppedError: it has ended.
            KafkaUnavailableError: no broker answers.
        """
        places = self._places()
        wanted = {
            (spec.name, task): TopicPartition(
                changelog_of(self._config.application_id, spec), task.partition
            )
            for group in self._topology.subtopologies
            for spec in group.stores
            if spec.logging
            for task in places
            if task.subtopology == group.id
        }
        ends = self._duties.admin.end_offsets(list(wanted.values()))
        lags: dict[str, dict[int, LagInfo]] = {}
        for (store, task), partition in wanted.items():
            end = ends[partition]
            is_running = places[task].standing is Standing.RUNNING
            at = end if is_running else self._offset_of(store, task.partition)
            lags.setdefault(store, {})[task.partition] = LagInfo(at, end)
        return lags

    # ---- what all of them need -----------------------------------------------------------------

    def _offset_of(self, store: str, partition: int) -> int:
        request = StoreRequest(
            store=store, ask=Offset(), partitions=frozenset({partition}), bound=Position()
        )
        (asked,) = self._queries().ask(request)
        return next((row[2] for row in asked.rows), 0)

    def _tasks(self) -> Mapping[TaskId, tuple[TopicPartition, ...]]:
        report = self._topology.report(self._config.application_id)
        return plan(report, self._duties.partitions(topics_to_describe(report))).inputs

    def _places(self) -> dict[TaskId, Place]:
        self._check_state()
        assert self._worker is not None, "it runs, so there is a worker"
        return self._worker.queries.places

    def _host(self) -> HostInfo:
        return HostInfo.of("" if self._worker is None else self._worker.endpoint)

    def _subtopology_of(self, store: str) -> int:
        groups = self._topology.subtopologies
        return next(g.id for g in groups if any(spec.name == store for spec in g.stores))

    def _forms_of(self, store: str) -> StoreForms:
        self._check_state()
        groups = (*self._topology.subtopologies, *self._topology.global_subtopologies)
        specs = {spec.name: spec for group in groups for spec in group.stores}
        spec = specs.get(store)
        if spec is None:
            known = ", ".join(sorted(specs)) or "none"
            raise UnknownStateStoreError(f"the topology has no store {store!r}; there are {known}")
        key_serde, value_serde = store_serdes(self._config, spec)
        topic = changelog_of(self._config.application_id, spec)
        return StoreForms(spec, key_serde, value_serde, topic)

    def _check_state(self) -> None:
        if self._state is ClientState.CREATED or self._worker is None:
            raise StreamsNotStartedError("the application was not started: call start() first")
        if self._state not in (ClientState.RUNNING, ClientState.REBALANCING):
            raise StreamsStoppedError(
                f"the application is {self._state}: its stores cannot be read any more"
            )

    def _queries(self) -> QueryClient:
        with InteractiveQueries._client_guard:
            if self._client is None:
                assert self._worker is not None, "it runs, so there is a worker"
                self._client = QueryClient(self._worker.queries.connect)
            return self._client

    def _close_queries(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _result(
    asked: Asked, forms: StoreForms, form: Form, request: StateQueryRequest
) -> QueryResult[Any]:
    answer = asked.answer
    info: tuple[str, ...] = ()
    if request.is_execution_info:
        info = (
            f"Answered in {answer.seconds * 1e6:.0f} us by the query process from committed state",
        )
    if answer.failure is not None:
        return QueryResult(
            position=answer.position,
            failure_reason=answer.failure,
            failure_message=answer.message,
            execution_info=info,
        )
    return QueryResult(
        position=answer.position, execution_info=info, value=form.result(forms, asked.rows)
    )
