"""Where counters come from: records, ports, dictionary, rates, topology, sources, recorder."""
