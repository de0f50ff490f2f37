// vector_is_foreign @fragment
// whether the node n carries a vector of another length than its slot's embedder makes, or one of a slot that is nobody's
(size(n.embedding_a) <> coalesce(m.dimensions_a, 0) OR size(n.embedding_b) <> coalesce(m.dimensions_b, 0))

// vector_is_missing @fragment
// whether the node n lacks the vector that searches read, and nobody said that it cannot be made
(m.live IS NOT NULL AND n['embedding_' + m.live] IS NULL AND n.embedding_error IS NULL)

// interval_is_malformed @fragment
// whether a fact is in no state, ended at no time, or ends before it begins; a plan may well have ended before its day
(NOT coalesce(f.state IN ['current', 'superseded', 'retracted'], false) OR (f.state <> 'current' AND f.valid_to IS NULL)
  OR (f.state = 'current' AND f.valid_from > f.valid_to))

// flag_is_wrong @fragment
// whether a fact says otherwise than its state whether it is open, or than its edges how many quotes support it
(coalesce(f.open, false) <> (f.state = 'current') OR coalesce(f.support, -1) <> COUNT { (f)-[:SUPPORTED_BY]->() })

// origin_is_unknown @fragment
// whether nobody can tell whose word the memory n is
(NOT coalesce(n.origin IN ['owner', 'user', 'import', 'document', 'picture', 'agent', 'tool'], false))

// time_is_impossible @fragment
// whether the memory n was said at no time, or nowhere on earth
(NOT coalesce(abs(n.timestamp) < 253370764800, false) OR abs(coalesce(n.offset, 0)) >= 86400)

// edges_across @fragment
// a row for each edge r that leads from anything of this user to anything of another one
CALL () {
  MATCH (n:@User {scope: $scope}) RETURN n
  UNION ALL MATCH (n:@Session {scope: $scope}) WHERE n.id IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Event {scope: $scope}) WHERE n.session_uid IS NOT NULL AND n.id IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Fact {scope: $scope}) WHERE n.id IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Ingest {scope: $scope}) WHERE n.id IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Revision {scope: $scope}) WHERE n.fact_id IS NOT NULL AND n.n IS NOT NULL RETURN n
  UNION ALL MATCH (n:@Artifact {scope: $scope}) WHERE n.session_id IS NOT NULL AND n.name IS NOT NULL RETURN n
  UNION ALL MATCH (n:@ArtifactVersion {scope: $scope}) WHERE n.id IS NOT NULL RETURN n
}
MATCH (n)-[r:HAS_SESSION|HAS_EVENT|NEXT|SUPPORTED_BY|MENTIONS|SUBJECT|OBJECT|READS|MERGED_INTO|SUPERSEDES|WOULD_SUPERSEDE|DEPENDS_ON|HAS_REVISION|BECAUSE_OF|HAS_ARTIFACT|HAS_VERSION]-(other)
WHERE other.scope <> $scope

// broken_invariants
// one row: how many facts a user has, how many nodes lack their vector, and how often each invariant is broken
MATCH (m:@Meta {key: 'schema'})
CALL () {
// include edges_across
  RETURN count(DISTINCT r) AS edges_across_users
}
RETURN COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND NOT f.direct } AS facts,
  COUNT { MATCH (n:@Memory {scope: $scope}) WHERE n.memory_id IS NOT NULL AND n.text IS NOT NULL AND (n.unembedded OR
// include vector_is_missing
  ) } + COUNT { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->() AND
// include vector_is_missing
  } AS unembedded,
  edges_across_users,
  COUNT {
    MATCH (f:@Fact {scope: $scope})
    WHERE f.id IS NOT NULL AND NOT coalesce(f.direct, false) AND coalesce(f.origin, '') <> 'owner' AND NOT (f)-[:SUPPORTED_BY]->()
  } AS unsupported_facts,
  COUNT {
    MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL AND e.memory_id IS NULL
    MATCH (e)-[:SUPPORTED_BY|MENTIONS]-()
  } AS unheard_quotes,
  COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND
// include interval_is_malformed
  } AS malformed_intervals,
  COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND
// include flag_is_wrong
  } AS wrong_flags,
  COUNT { MATCH (n:@Memory {scope: $scope}) WHERE n.memory_id IS NOT NULL AND
// include vector_is_foreign
  } + COUNT { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND
// include vector_is_foreign
  } AS foreign_vectors,
  COUNT { MATCH (n:@Event {scope: $scope}) WHERE n.memory_id IS NOT NULL AND (
// include origin_is_unknown
    OR
// include time_is_impossible
  ) } + COUNT { MATCH (n:@Fact {scope: $scope}) WHERE n.id IS NOT NULL AND (
// include origin_is_unknown
    OR
// include time_is_impossible
  ) } AS malformed_memories,
  COUNT {
    MATCH (i:@Ingest {scope: $scope, state: 'claimed'})
    WHERE coalesce(i.lease_until <= $now OR i.lease_until > $now + $lease, true)
  } AS overdue_leases

// begin_mending
// nothing; until the transaction ends nobody writes to this user, and whoever is about to has to look at the graph again
MATCH (u:@User {scope: $scope})
SET u.lock = 0, u.writes = coalesce(u.writes, 0) + 1

// mend_edges_across_users
// nothing; no edge leads from one user to another
// include edges_across
WITH DISTINCT r
DELETE r

// mend_unheard_quotes
// nothing; nothing rests on what memory does not hold
MATCH (e:@Event {scope: $scope}) WHERE e.session_uid IS NOT NULL AND e.id IS NOT NULL AND e.memory_id IS NULL
MATCH (e)-[r:SUPPORTED_BY|MENTIONS]-()
DELETE r

// mend_malformed_intervals
// nothing; what was told to memory directly is so until it is forgotten
MATCH (f:@Fact {scope: $scope})
WHERE f.id IS NOT NULL AND f.direct AND (NOT coalesce(f.state IN ['current', 'superseded', 'retracted'], false)
  OR (f.state <> 'current' AND f.valid_to IS NULL))
SET f.state = 'current', f.open = true, f.retired_at = null

// mend_wrong_flags
// nothing; facts say how many quotes support them, and whether they are open
MATCH (f:@Fact {scope: $scope})
WHERE f.id IS NOT NULL AND
// include flag_is_wrong
SET f.open = (f.state = 'current'), f.support = COUNT { (f)-[:SUPPORTED_BY]->() }

// mend_malformed_memories
// nothing; what is nobody's word counts as imported, and what was said at no time as said when a fact of it was, or else now
CALL () {
  MATCH (n:@Event {scope: $scope}) WHERE n.memory_id IS NOT NULL RETURN n
  UNION ALL
  MATCH (n:@Fact {scope: $scope}) WHERE n.id IS NOT NULL RETURN n
}
WITH n, CASE WHEN
// include origin_is_unknown
  THEN [1] ELSE [] END AS unknown, CASE WHEN
// include time_is_impossible
  THEN [1] ELSE [] END AS impossible
WITH n, unknown, impossible, head(COLLECT {
  MATCH (n)-[:SUPPORTED_BY]-(other) WHERE abs(other.timestamp) < 253370764800
  RETURN other.timestamp AS heard ORDER BY heard LIMIT 1
}) AS heard
FOREACH (_ IN unknown | SET n.origin = 'import')
FOREACH (_ IN impossible | SET n.timestamp = coalesce(heard, floor($now)), n.offset = 0)

// mend_foreign_vectors
// nothing; vectors that are not of their slot's embedder go, and are to be made anew
MATCH (m:@Meta {key: 'schema'})
CALL () {
  MATCH (n:@Memory {scope: $scope}) WHERE n.memory_id IS NOT NULL RETURN n
  UNION ALL
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL RETURN n
}
WITH m, n WHERE
// include vector_is_foreign
FOREACH (_ IN CASE WHEN size(n.embedding_a) <> coalesce(m.dimensions_a, 0) THEN [1] ELSE [] END |
  SET n.embedding_a = null, n.tokens_a = null)
FOREACH (_ IN CASE WHEN size(n.embedding_b) <> coalesce(m.dimensions_b, 0) THEN [1] ELSE [] END |
  SET n.embedding_b = null, n.tokens_b = null)

// mend_overdue_leases
// nothing; what a dead worker holds waits again, what is held for longer than a lease is free after one
MATCH (i:@Ingest {scope: $scope, state: 'claimed'})
WHERE coalesce(i.lease_until <= $now OR i.lease_until > $now + $lease, true)
SET i.lease_until = CASE WHEN i.lease_until > $now THEN $now + $lease ELSE 0.0 END
WITH i WHERE i.lease_until = 0.0
SET i.state = CASE WHEN EXISTS { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id } THEN 'pending' ELSE 'superseded' END

// mark_unembedded
// nothing; memories without a vector get theirs with the next ingest
MATCH (m:@Meta {key: 'schema'})
MATCH (n:@Memory {scope: $scope}) WHERE n.memory_id IS NOT NULL AND n.text IS NOT NULL AND
// include vector_is_missing
SET n.unembedded = true

// unembedded_nodes
// a row for each of some memories and names that lack their vector: its text, and what was said before it
MATCH (m:@Meta {key: 'schema'})
CALL (m) {
  MATCH (n:@Memory {scope: $scope}) WHERE n.memory_id IS NOT NULL AND n.text IS NOT NULL AND
// include vector_is_missing
  RETURN n, n.memory_id AS id, n.text AS text, coalesce(head([(before:@Memory)-[:NEXT]->(n) | before.text]), '') AS before
  LIMIT $limit
  UNION ALL
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->() AND
// include vector_is_missing
  RETURN n, n.key AS id, n.name AS text, '' AS before
  LIMIT $limit
}
RETURN 'Entity' IN [label IN labels(n) | right(label, 6)] AS is_name, id, text, before LIMIT $limit

// embed_names
// nothing; an entity that was renamed meanwhile gets no vector
UNWIND $rows AS row
MATCH (n:@Entity {scope: $scope, key: row.id}) WHERE n.name = row.text
CALL db.create.setNodeVectorProperty(n, $slot, row.vector)
