// ingest_waiting
CREATE INDEX @ingest_waiting IF NOT EXISTS FOR (n:@Ingest) ON (n.state)
