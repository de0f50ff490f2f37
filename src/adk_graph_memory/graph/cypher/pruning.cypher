// session_gone @fragment
// whether a session is to go: it has expired, or is older than what an operator said
(NOT
// include session_stands
OR s.last_update_time <= $retention.now - $retention.older_than)

// event_gone @fragment
// the same of an event in its session
(NOT
// include event_stands
OR e.timestamp <= $now - $retention.older_than)

// revision_gone @fragment
// the same of what a fact was before
(NOT
// include revision_stands
OR r.recorded_at.epochSeconds <= $retention.now - $retention.older_than)

// memory_gone @fragment
// the same of a turn in memory
(NOT
// include memory_stands
OR memory.timestamp <= $retention.now - $retention.older_than)

// fact_gone @fragment
// the same of a fact; one that was read from turns goes with the last of them, whatever it says itself
(NOT
// include fact_stands
OR coalesce(f.heard_at, f.timestamp) <= $retention.now - $retention.older_than
OR (f.support > 0 AND NOT f.direct AND NOT EXISTS {
  MATCH (f)-[:SUPPORTED_BY]->(memory) WHERE coalesce(NOT
// include memory_gone
  , true)
}))

// version_gone @fragment
// the same of a version of an artifact
(NOT
// include version_stands
OR v.create_time <= $retention.now - $retention.older_than)

// state_gone @fragment
// the same of a user's state
(u.state <> [] AND (u.state_time <= $retention.now - $retention.user_state_ttl
  OR u.state_time <= $retention.now - $retention.older_than))

// expired_counts @operator
// a row for each of some users, by scope: who it is, and how much of each kind is to go
// of several users: an operator deletes what has expired of anybody; it returns counts
MATCH (u:@User)
WHERE u.scope > $after AND ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
WITH u ORDER BY u.scope LIMIT $limit
RETURN u.scope AS scope, u.app_name AS app_name, u.user_id AS user_id,
  CASE WHEN 'sessions' IN $kinds THEN COUNT {
    MATCH (s:@Session {scope: u.scope}) WHERE s.id IS NOT NULL AND
// include session_gone
  } ELSE 0 END AS sessions,
  CASE WHEN 'events' IN $kinds THEN COUNT {
    MATCH (e:@Event {scope: u.scope}) WHERE e.session_uid IS NOT NULL AND e.seq IS NOT NULL AND e.body IS NOT NULL AND
// include event_gone
  } ELSE 0 END AS events,
  CASE WHEN 'memory' IN $kinds THEN COUNT {
    MATCH (memory:@Event {scope: u.scope}) WHERE memory.memory_id IS NOT NULL AND
// include memory_gone
  } + COUNT {
    MATCH (f:@Fact {scope: u.scope}) WHERE f.id IS NOT NULL AND
// include fact_gone
  } ELSE 0 END AS memory,
  CASE WHEN 'revisions' IN $kinds THEN COUNT {
    MATCH (r:@Revision {scope: u.scope}) WHERE r.fact_id IS NOT NULL AND r.n IS NOT NULL AND
// include revision_gone
  } ELSE 0 END AS revisions,
  CASE WHEN 'artifacts' IN $kinds THEN COUNT {
    MATCH (v:@ArtifactVersion {scope: u.scope}) WHERE v.id IS NOT NULL AND
// include version_gone
  } ELSE 0 END AS artifacts,
  CASE WHEN 'user_state' IN $kinds AND
// include state_gone
  THEN 1 ELSE 0 END AS user_state
ORDER BY scope

// prune_events
// one row: how many events left their session, and the session to go on from; what memory holds of them stays, as words
MATCH (e:@Event {scope: $scope})
WHERE e.session_uid >= $after AND e.seq IS NOT NULL AND e.body IS NOT NULL AND
// include event_gone
WITH e ORDER BY e.session_uid LIMIT $batch
WITH collect(e) AS events, max(e.session_uid) AS last
FOREACH (e IN [e IN events WHERE e.memory_id IS NOT NULL] | REMOVE e.body)
FOREACH (e IN [e IN events WHERE e.memory_id IS NULL] | DETACH DELETE e)
RETURN size(events) AS pruned, last

// expire_sessions
// a row for each of some sessions that are to go: from now on nobody sees it, nor appends to it while its events go
MATCH (s:@Session {scope: $scope})
WHERE s.id > $after AND
// include session_gone
WITH s ORDER BY s.id LIMIT $batch
SET s.lock = 0
WITH s
WHERE
// include session_gone
SET s.expires_at = CASE WHEN s.expires_at <= $now THEN s.expires_at ELSE $now END
RETURN s.id AS id, s.uid AS uid

// prune_session_events
// one row: how many events of these sessions went that memory does not hold
MATCH (e:@Event {scope: $scope})
WHERE e.session_uid IN $uids AND e.seq IS NOT NULL AND e.memory_id IS NULL
WITH e LIMIT $batch
WITH collect(e) AS events
FOREACH (e IN events | DETACH DELETE e)
RETURN size(events) AS pruned

// prune_sessions
// one row: how many of these sessions, which have expired, went
UNWIND $ids AS id
MATCH (s:@Session {scope: $scope, id: id}) WHERE s.expires_at <= $now
// include session_deletion
RETURN count(*) AS pruned

// prune_revisions
// one row: how many revisions went, and the fact to go on from
MATCH (r:@Revision {scope: $scope})
WHERE r.fact_id >= $after AND r.n IS NOT NULL AND
// include revision_gone
WITH r ORDER BY r.fact_id LIMIT $batch
WITH collect(r) AS revisions, max(r.fact_id) AS last
FOREACH (r IN revisions | DETACH DELETE r)
RETURN size(revisions) AS pruned, last

// expired_turns
// one row: the memory ids of some turns that are to be forgotten
MATCH (memory:@Event {scope: $scope})
WHERE memory.memory_id > $after AND
// include memory_gone
WITH memory.memory_id AS id ORDER BY id LIMIT $batch
RETURN collect(id) AS ids

// expired_facts
// one row: the memory ids of some facts that are to be forgotten
MATCH (f:@Fact {scope: $scope})
WHERE f.id > $after AND
// include fact_gone
WITH f.id AS id ORDER BY id LIMIT $batch
RETURN collect('fact:' + id) AS ids

// prune_versions
// one row: how many versions of artifacts went, and id and store of the contents that lie elsewhere
MATCH (v:@ArtifactVersion {scope: $scope})
WHERE v.id IS NOT NULL AND
// include version_gone
WITH v LIMIT $batch
OPTIONAL MATCH (a:@Artifact {scope: $scope, session_id: v.session_id, name: v.name})
SET a.lock = 0
WITH collect(v) AS versions, collect(DISTINCT a) AS artifacts
WITH versions, artifacts, size(versions) AS pruned,
     [v IN versions WHERE v.store IS NOT NULL | {id: v.id, store: v.store}] AS contents
FOREACH (v IN versions | DETACH DELETE v)
WITH artifacts, contents, pruned
CALL (artifacts) {
  UNWIND artifacts AS a
  WITH a WHERE NOT EXISTS { (a)-[:HAS_VERSION]->() }
  DETACH DELETE a
}
RETURN pruned, contents

// prune_user_state
// one row: whether the user's state went
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
WHERE
// include state_gone
SET u.state = [], u.state_time = null
RETURN count(u) AS pruned
