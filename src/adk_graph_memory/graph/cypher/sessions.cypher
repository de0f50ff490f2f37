// ensure_user @fragment
// the user's node, made if there is none yet
MERGE (u:@User {scope: $scope}) ON CREATE SET u.app_name = $app_name, u.user_id = $user_id, u.state = []

// create_session
// one row: the app's and the user's state after the initial state was merged into it
MERGE (a:@App {app_name: $app_name})
ON CREATE SET a.state = []
// include ensure_user
FOREACH (_ IN CASE WHEN $app.keys = [] THEN [] ELSE [1] END |
  SET a.lock = 0
  SET a.state = [m IN a.state WHERE none(k IN $app.keys WHERE m STARTS WITH k)] + $app.members)
FOREACH (_ IN CASE WHEN $user.keys = [] THEN [] ELSE [1] END |
  SET u.lock = 0
  SET u.state = [m IN
// include live_user_state
  WHERE none(k IN $user.keys WHERE m STARTS WITH k)] + $user.members
  SET u.state_time = $now)
SET u.owner = coalesce($owner, u.owner)
CREATE (s:@Session {
  scope: $scope, id: $id, uid: $uid, app_name: $app_name, user_id: $user_id,
  state: $session.members, revision: 0, create_time: $now, last_update_time: $now,
  expires_at: $expires_at, display_name: $display_name, labels: $labels
})
CREATE (u)-[:HAS_SESSION]->(s)
RETURN a.state AS app_state,
// include live_user_state
AS user_state

// session_uid
// one row, or none: the generated key of the session under this id, and whether it has expired
MATCH (s:@Session {scope: $scope, id: $id})
RETURN s.uid AS uid, NOT (
// include session_stands
) AS expired

// session_states
// one row: the app's and the user's state
MATCH (a:@App {app_name: $app_name}), (u:@User {scope: $scope})
RETURN a.state AS app_state,
// include live_user_state
AS user_state

// get_session
// one row, or none: the session, all three states, and the chosen events' bodies, newest first
MATCH (s:@Session {scope: $scope, id: $id})
WHERE
// include session_stands
OPTIONAL MATCH (a:@App {app_name: $app_name})
OPTIONAL MATCH (u:@User {scope: $scope})
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid})
  WHERE e.seq > s.revision - $recent AND e.timestamp >= $after AND
// include event_stands
  WITH e ORDER BY e.seq DESC LIMIT $limit
  RETURN collect(e.body) AS bodies
}
RETURN s.uid AS uid, s.state AS state, s.revision AS revision, s.last_update_time AS last_update_time,
       a.state AS app_state,
// include live_user_state
       AS user_state, bodies

// list_events
// one row, or none when there is no such session: bodies and sequence numbers, oldest first
MATCH (s:@Session {scope: $scope, id: $id})
WHERE
// include session_stands
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid})
  WHERE e.seq > $after_seq AND e.timestamp >= $after AND
// include event_stands
  WITH e ORDER BY e.seq LIMIT $limit
  RETURN collect(e.body) AS bodies, collect(e.seq) AS seqs
}
RETURN bodies, seqs

// session_columns @fragment
// the end of both listings: a list for each property of the sessions s
  RETURN collect(s.id) AS ids, collect(s.uid) AS uids, collect(s.last_update_time) AS times,
         collect(s.revision) AS revisions, collect(coalesce(s.display_name, '')) AS display_names,
         collect(CASE WHEN $include_state THEN reduce(json = '', m IN s.state | json + ',' + m) ELSE '' END) AS states

// list_sessions_of_user
// one row: lists with an entry a session, in the order asked for; the app's and the user's state
OPTIONAL MATCH (a:@App {app_name: $app_name})
OPTIONAL MATCH (u:@User {scope: $scope})
CALL () {
  MATCH (s:@Session {scope: $scope})
  WHERE s.last_update_time IS NOT NULL AND
// include session_stands
    AND all(label IN $labels WHERE label IN s.labels)
    AND ($after IS NULL OR s.last_update_time * $direction > $after.time * $direction
      OR (s.last_update_time = $after.time AND s.id > $after.id))
  WITH s ORDER BY s.last_update_time * $direction, s.id LIMIT $limit
// include session_columns
}
RETURN ids, uids, times, revisions, display_names, states, CASE WHEN $include_state THEN a.state END AS app_state,
  CASE WHEN $include_state THEN
// include live_user_state
  END AS user_state

// list_sessions_of_app @operator
// the same over all users of the app, and whose the sessions and the states are
// of several users: ADK lists a whole app's sessions when no user is named
OPTIONAL MATCH (a:@App {app_name: $app_name})
CALL () {
  MATCH (s:@Session {app_name: $app_name})
  WHERE s.last_update_time IS NOT NULL
  WITH s
  WHERE
// include session_stands
    AND all(label IN $labels WHERE label IN s.labels)
    AND ($after IS NULL OR s.last_update_time * $direction > $after.time * $direction
      OR (s.last_update_time = $after.time AND (s.user_id > $after.user_id
        OR (s.user_id = $after.user_id AND s.id > $after.id))))
  WITH s ORDER BY s.last_update_time * $direction, s.user_id, s.id LIMIT $limit
// include session_columns
  , collect(s.user_id) AS user_ids
}
CALL () {
  MATCH (u:@User {app_name: $app_name}) WHERE $include_state AND u.state <> []
  RETURN collect(u.user_id) AS users, collect(
// include live_user_state
  ) AS user_states
}
RETURN ids, uids, user_ids, times, revisions, display_names, states, CASE WHEN $include_state THEN a.state END AS app_state,
  users, user_states

// session_positions @operator
// a row for each of the app's sessions with this id: where it stands in a listing
// of several users: the cursor of that listing
MATCH (s:@Session {app_name: $app_name, id: $id})
WHERE s.last_update_time IS NOT NULL
RETURN s.user_id AS user_id, s.id AS id, s.last_update_time AS time

// get_user_state
// one row, or none: the user's state
MATCH (u:@User {scope: $scope})
RETURN
// include live_user_state
AS user_state

// append_events @operator
// a row for each append whose session exists: its number, what became of the event, and the revision that it has
// of several users: their appends share a transaction; each row names its own scope
UNWIND range(0, size($appends) - 1) AS number
WITH number, $appends[number] AS append
MATCH (s:@Session {scope: append.scope, id: append.session_id})
WHERE
// include session_stands from append
SET s.lock = 0
WITH number, append, s
OPTIONAL MATCH (known:@Event {scope: append.scope, session_uid: s.uid, id: append.event.id})
OPTIONAL MATCH (last:@Event {scope: append.scope, session_uid: s.uid, seq: s.revision})
WITH number, append, s, known, last, CASE
  WHEN known.body = append.event.body THEN 'repeated'
  WHEN known IS NOT NULL THEN 'taken'
  WHEN s.closed_at IS NOT NULL THEN 'closed'
  WHEN s.uid = append.uid AND s.revision = append.revision THEN 'new'
  WHEN append.revision IS NULL AND s.last_update_time <= append.last_update_time THEN 'new'
  WHEN append.revision IS NULL AND coalesce(last.id, '') = append.last_event_id THEN 'new'
  ELSE 'stale' END AS outcome
FOREACH (_ IN CASE outcome WHEN 'new' THEN [1] ELSE [] END |
  SET s.revision = s.revision + 1, s.last_update_time = append.event.timestamp,
      s.state = [m IN s.state WHERE none(k IN append.session.keys WHERE m STARTS WITH k)] + append.session.members
  CREATE (s)-[:HAS_EVENT]->(e:@Event {scope: append.scope, session_uid: s.uid, session_id: append.session_id, seq: s.revision})
  SET e += append.event
  FOREACH (p IN CASE WHEN last IS NULL THEN [] ELSE [last] END | CREATE (p)-[:NEXT]->(e))
  FOREACH (_ IN CASE WHEN append.app.keys = [] THEN [] ELSE [1] END |
    MERGE (a:@App {app_name: append.app_name}) ON CREATE SET a.state = []
    SET a.lock = 0
    SET a.state = [m IN a.state WHERE none(k IN append.app.keys WHERE m STARTS WITH k)] + append.app.members)
  FOREACH (_ IN CASE WHEN append.user.keys = [] THEN [] ELSE [1] END |
// include ensure_user from append
    SET u.lock = 0
    SET u.state = [m IN
// include live_user_state
    WHERE none(k IN append.user.keys WHERE m STARTS WITH k)] + append.user.members
    SET u.state_time = append.now))
RETURN number, outcome, s.uid AS uid, s.closed_at AS closed_at, s.revision AS latest,
       CASE outcome WHEN 'repeated' THEN known.seq ELSE s.revision END AS revision

// list_event_ids
// one row, or none when there is no such session: its uid, its revision, and its events' ids in order
MATCH (s:@Session {scope: $scope, id: $id})
WHERE
// include session_stands
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid}) WHERE e.seq IS NOT NULL
  WITH e ORDER BY e.seq
  RETURN collect(e.id) AS ids
}
RETURN s.uid AS uid, s.revision AS revision, ids

// list_event_authors
// a row for each session whose id begins with $prefix: its id, and its events' ids and authors in order
MATCH (s:@Session {scope: $scope})
WHERE s.id STARTS WITH $prefix AND
// include session_stands
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid}) WHERE e.seq IS NOT NULL
  WITH e ORDER BY e.seq
  RETURN collect([e.id, e.author]) AS events
}
RETURN s.id AS id, events ORDER BY id

// append_messages
// one row, or none when there is no such session: whether the events were appended, and since when the session is closed;
// the user's lock comes first, so that no worker makes an event for memory that is appended here meanwhile
MATCH (u:@User {scope: $scope})
SET u.lock = 0
WITH u
MATCH (s:@Session {scope: $scope, id: $session_id, uid: $uid})
SET s.lock = 0
WITH s
OPTIONAL MATCH (last:@Event {scope: $scope, session_uid: s.uid, seq: $revision})
OPTIONAL MATCH (known:@Event {scope: $scope, session_uid: s.uid, id: head($events).properties.id})
WITH s, last, CASE
  WHEN known.invocation_id = head($events).properties.invocation_id THEN 'repeated'
  WHEN s.closed_at IS NOT NULL THEN 'closed'
  WHEN s.revision = $revision THEN 'new'
  ELSE 'stale' END AS outcome
CALL (s, last, outcome) {
  UNWIND CASE outcome WHEN 'new' THEN range(1, size($events)) ELSE [] END AS number
  WITH s, last, number, $events[number - 1] AS event
  OPTIONAL MATCH (remembered:@Event {scope: $scope, memory_id: event.memory_id}) WHERE remembered.session_uid <> s.uid
  OPTIONAL MATCH (remembered)-[order:NEXT]-()
  WITH s, last, number, event, remembered, collect(order) AS orders, remembered.text AS text, remembered.timestamp AS timestamp
  FOREACH (order IN orders | DELETE order)
  SET remembered.session_uid = s.uid
  MERGE (e:@Event {scope: $scope, session_uid: s.uid, id: event.properties.id})
  SET e += event.properties
  SET e.session_id = $session_id, e.seq = $revision + number, e.text = coalesce(text, event.properties.text),
    e.timestamp = coalesce(timestamp, event.properties.timestamp)
  MERGE (s)-[:HAS_EVENT]->(e)
  WITH s, last, e ORDER BY e.seq
  WITH s, last, collect(e) AS events
  WITH s, CASE WHEN last IS NULL THEN [] ELSE [last] END + events AS chain
  SET s.revision = chain[-1].seq, s.last_update_time = chain[-1].timestamp
  FOREACH (i IN range(0, size(chain) - 2) |
    FOREACH (earlier IN [chain[i]] | FOREACH (later IN [chain[i + 1]] | MERGE (earlier)-[:NEXT]->(later))))
}
RETURN outcome, s.closed_at AS closed_at

// close_session
// one row, or none when there is no such session: when it was closed
MATCH (s:@Session {scope: $scope, id: $id})
WHERE
// include session_stands
SET s.closed_at = coalesce(s.closed_at, $now)
RETURN s.closed_at AS closed_at

// session_deletion @fragment
// the end of a session s and its events, but for the words that memory holds
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid}) WHERE e.seq IS NOT NULL AND e.memory_id IS NULL
  DETACH DELETE e
}
CALL (s) {
  MATCH (e:@Event {scope: $scope, session_uid: s.uid}) WHERE e.seq IS NOT NULL
  REMOVE e.body
  WITH e ORDER BY e.seq
  WITH collect(e) AS kept
  UNWIND range(0, size(kept) - 2) AS i
  WITH kept[i] AS earlier, kept[i + 1] AS later
  MERGE (earlier)-[:NEXT]->(later)
}
DETACH DELETE s

// delete_session
// nothing; what memory holds, or was asked to hold, of the session stays: words without payload, in their old order
MATCH (s:@Session {scope: $scope, id: $id})
WHERE NOT $only_expired OR NOT (
// include session_stands
)
// include session_deletion
