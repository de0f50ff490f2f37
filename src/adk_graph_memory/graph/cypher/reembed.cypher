// reembed_take @database
// nothing; from now on only this run may fill a slot: what an earlier one still writes is refused
MATCH (m:@Meta {key: 'schema'}) SET m.reembedding = $run, m.filling = $filling

// reembed_filling @database
// one row if the run stands; its slot is open and empty, so that a later run may go on with it
MATCH (m:@Meta {key: 'schema', reembedding: $run})
SET m.filling = $filling, m.filling_since = datetime()
RETURN m.filling AS filling

// reembed_hold @database
// one row if the run stands; until the transaction ends no other one can take over
MATCH (m:@Meta {key: 'schema', reembedding: $run}) SET m.lock = 0
RETURN m.live AS live

// reembed_counts @database @unbounded
// a row a kind, of the scopes from the first to the last: how many texts there are, how many still lack this slot's vector, and
// how many could not be embedded
MATCH (n:@Memory)
WHERE n.scope >= $first_scope AND n.scope <= $last_scope AND n.memory_id IS NOT NULL AND n.text IS NOT NULL
  AND ($since IS NULL OR n.timestamp >= $since)
RETURN n.kind AS kind, count(*) AS texts,
       sum(CASE WHEN n[$slot] IS NULL AND n.embedding_error IS NULL THEN 1 ELSE 0 END) AS left,
       sum(CASE WHEN n[$slot] IS NULL AND n.embedding_error IS NOT NULL THEN 1 ELSE 0 END) AS failed
UNION ALL
MATCH (n:@Entity)
WHERE n.scope >= $first_scope AND n.scope <= $last_scope AND n.key IS NOT NULL AND n.name IS NOT NULL AND $since IS NULL
RETURN 'entity' AS kind, count(*) AS texts,
       sum(CASE WHEN n[$slot] IS NULL AND n.embedding_error IS NULL THEN 1 ELSE 0 END) AS left,
       sum(CASE WHEN n[$slot] IS NULL AND n.embedding_error IS NOT NULL THEN 1 ELSE 0 END) AS failed

// lacks_vector @fragment
// whether a memory that was said since then has a text without this slot's vector, which is not known to fail
n.text IS NOT NULL AND n[$slot] IS NULL AND n.embedding_error IS NULL AND ($since IS NULL OR n.timestamp >= $since)

// unembedded_memories @fragment
// n: the next memories behind a key, up to another, that lack this slot's vector, in the order of their keys
CALL () {
  MATCH (n:@Memory)
  WHERE n.scope = $after_scope AND n.memory_id > $after_id AND (n.scope < $until_scope OR n.memory_id <= $until_id) AND
// include lacks_vector
  RETURN n ORDER BY n.scope, n.memory_id LIMIT $limit
  UNION ALL
  MATCH (n:@Memory)
  WHERE n.scope > $after_scope AND n.scope < $until_scope AND n.memory_id IS NOT NULL AND
// include lacks_vector
  RETURN n ORDER BY n.scope, n.memory_id LIMIT $limit
  UNION ALL
  MATCH (n:@Memory)
  WHERE n.scope = $until_scope AND n.scope > $after_scope AND n.memory_id <= $until_id AND
// include lacks_vector
  RETURN n ORDER BY n.scope, n.memory_id LIMIT $limit
}
WITH n ORDER BY n.scope, n.memory_id LIMIT $limit

// unembedded_entities @fragment
// n: the next entities behind a key, up to another, whose names lack this slot's vector, in the order of their keys
CALL () {
  MATCH (n:@Entity)
  WHERE n.scope = $after_scope AND n.key > $after_id AND (n.scope < $until_scope OR n.key <= $until_id)
    AND n.name IS NOT NULL AND n[$slot] IS NULL AND n.embedding_error IS NULL
  RETURN n ORDER BY n.scope, n.key LIMIT $limit
  UNION ALL
  MATCH (n:@Entity)
  WHERE n.scope > $after_scope AND n.scope < $until_scope AND n.key IS NOT NULL
    AND n.name IS NOT NULL AND n[$slot] IS NULL AND n.embedding_error IS NULL
  RETURN n ORDER BY n.scope, n.key LIMIT $limit
  UNION ALL
  MATCH (n:@Entity)
  WHERE n.scope = $until_scope AND n.scope > $after_scope AND n.key <= $until_id
    AND n.name IS NOT NULL AND n[$slot] IS NULL AND n.embedding_error IS NULL
  RETURN n ORDER BY n.scope, n.key LIMIT $limit
}
WITH n ORDER BY n.scope, n.key LIMIT $limit

// reembed_memories @database @unbounded
// a row for each of these memories
// include unembedded_memories
RETURN n.scope AS owner, n.memory_id AS id, n.text AS text,
       coalesce(head([(before:@Memory)-[:NEXT]->(n) | before.text]), '') AS before
ORDER BY owner, id

// reembed_entities @database @unbounded
// a row for each of these entities
// include unembedded_entities
RETURN n.scope AS owner, n.key AS id, n.name AS text, '' AS before ORDER BY owner, id

// reembed_memory_pages @database @unbounded
// a row for each page of these memories: the key of its last one, how many there are, and their characters
// include unembedded_memories
WITH collect({owner: n.scope, id: n.memory_id, characters: size(n.text)}) AS rows
WITH rows, CASE WHEN rows = [] THEN [] ELSE range(0, size(rows) - 1, $page) END AS starts
UNWIND starts AS start
WITH start, rows[start..start + $page] AS page
RETURN last(page).owner AS owner, last(page).id AS id, size(page) AS texts,
       reduce(characters = 0, row IN page | characters + row.characters) AS characters
ORDER BY start

// reembed_entity_pages @database @unbounded
// a row for each page of these entities: the key of its last one, how many there are, and their characters
// include unembedded_entities
WITH collect({owner: n.scope, id: n.key, characters: size(n.name)}) AS rows
WITH rows, CASE WHEN rows = [] THEN [] ELSE range(0, size(rows) - 1, $page) END AS starts
UNWIND starts AS start
WITH start, rows[start..start + $page] AS page
RETURN last(page).owner AS owner, last(page).id AS id, size(page) AS texts,
       reduce(characters = 0, row IN page | characters + row.characters) AS characters
ORDER BY start

// reembed_memory_vectors @database
// one row if the run stands; a text that was edited since it was read gets nothing and is read again
MATCH (m:@Meta {key: 'schema', reembedding: $run})
CALL (m) {
  UNWIND $rows AS row
  MATCH (n:@Memory {scope: row.owner, memory_id: row.id}) WHERE n.text = row.text
  SET n.embedding_error = row.error, n.unembedded = CASE WHEN 'embedding_' + m.live <> $slot THEN n.unembedded END
  WITH n, row WHERE row.vector IS NOT NULL
  SET n[$tokens] = row.tokens
  WITH n, row
  CALL db.create.setNodeVectorProperty(n, $slot, row.vector)
}
RETURN m.live AS live

// reembed_entity_vectors @database
// one row if the run stands
MATCH (m:@Meta {key: 'schema', reembedding: $run})
CALL () {
  UNWIND $rows AS row
  MATCH (n:@Entity {scope: row.owner, key: row.id}) WHERE n.name = row.text
  SET n.embedding_error = row.error
  WITH n, row WHERE row.vector IS NOT NULL
  CALL db.create.setNodeVectorProperty(n, $slot, row.vector)
}
RETURN m.live AS live

// reembed_unmark @database @unbounded
// nothing; texts that could not be embedded are tried again
MATCH (n:@Memory|@Entity) WHERE n.embedding_error IS NOT NULL
CALL (n) { SET n.embedding_error = null } IN TRANSACTIONS OF 10000 ROWS

// reembed_failures @database @unbounded
// a row for each text that could not be embedded, with the reason
MATCH (n:@Memory|@Entity) WHERE n.embedding_error IS NOT NULL
RETURN n.scope AS owner, coalesce(n.memory_id, 'entity:' + n.key) AS id, coalesce(n.text, n.name) AS text,
       n.embedding_error AS error
ORDER BY owner, id LIMIT $limit

// reembed_running_ingests @database
// a row for each ingest that somebody works on, with the seconds (epoch) until which it is theirs
MATCH (i:@Ingest) WHERE i.state = 'claimed' AND i.lease_until > $now
RETURN i.lease AS lease, i.lease_until AS until

// reembed_reopen @database @unbounded
// one row: how many vectors of this slot were taken away again, as the words may have changed since they were made
CALL () {
  MATCH (m:@Meta {key: 'schema'})
  MATCH (i:@Ingest) WHERE i.done_at >= m.filling_since
  MATCH (i)-[:READS]->(n:@Memory)
  RETURN n
  UNION
  MATCH (n:@Memory) WHERE n.scope IS NOT NULL AND n.unembedded = true
  RETURN n
}
CALL (n) { SET n[$slot] = null, n[$tokens] = null, n.embedding_error = null } IN TRANSACTIONS OF 5000 ROWS
RETURN count(n) AS reopened

// reembed_empty @database @unbounded
// nothing; no node carries a vector in this slot any more
MATCH (n:@Memory|@Entity) WHERE n[$slot] IS NOT NULL
CALL (n) { SET n[$slot] = null, n[$tokens] = null } IN TRANSACTIONS OF 5000 ROWS

// reembed_close @database
// nothing; this slot belongs to no embedder any more
MATCH (m:@Meta {key: 'schema'}) SET m['embedder_' + $name] = null, m['dimensions_' + $name] = null

// reembed_finish @database
// nothing; while texts are left over, the next run with this embedder goes on with the slot
MATCH (m:@Meta {key: 'schema', reembedding: $run})
SET m.reembedding = null, m.filling = $filling, m.filling_since = datetime()
