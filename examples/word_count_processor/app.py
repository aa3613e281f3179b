"""Counts words by hand: a processor with a store, which tells all counts each second.

As Kafka's ``WordCountProcessorDemo``. ``headwater describe`` shows
``examples.word_count_processor.app:build``.
"""

from datetime import timedelta

from headwater import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StoreSpec,
    Topology,
)

INPUT = "streams-plaintext-input"
OUTPUT = "streams-wordcount-processor-output"
COUNTS = "Counts"


class WordCountProcessor(Processor[str | None, str, str, str]):
    """Counts the words of lines; at each second of stream time it forwards every count."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        """Ask for the store, and to be called each second."""
        self.context = context
        self.counts = context.get_state_store(COUNTS)
        context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Record[str | None, str]) -> None:
        """Count the words of one line."""
        for word in record.value.lower().split():
            self.counts.put(word, (self.counts.get(word) or 0) + 1)

    def tell(self, timestamp: int) -> None:
        """Forward every count, and ask for a commit."""
        for word, count in self.counts.all():
            self.context.forward(Record(word, str(count), timestamp))
        self.context.commit()


class WordCountSupplier:
    """Makes a processor for each task, and brings its store along."""

    def __call__(self) -> WordCountProcessor:
        """Return a new processor."""
        return WordCountProcessor()

    def stores(self) -> list[StoreSpec]:
        """Return the store that every processor is connected to."""
        in_memory = Stores.in_memory_key_value_store(COUNTS)
        return [Stores.key_value_store_builder(in_memory, Serdes.string, Serdes.integer)]


def build() -> Topology:
    """Put the topology together: lines in, counts as text out."""
    return (
        Topology()
        .add_source("Source", INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .add_processor("Process", WordCountSupplier(), "Source")
        .add_sink("Sink", OUTPUT, "Process", key_serde=Serdes.string, value_serde=Serdes.string)
    )
