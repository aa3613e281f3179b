"""What measures: windows of samples, rates, a task's measures, sensors of the user's.

windows    average, greatest and least of the last minute; rates of counters
sensors    ``StreamsMetrics``, which a processor's context gives
task       what one task records, decided when its closures are compiled
stores     operations and iterators of its stores
"""
