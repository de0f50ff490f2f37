// import_app_state @operator
// one row: how many keys the app's state did not have; those that it has keep their values
// of several users: an import writes what it is told of an app
MERGE (a:@App {app_name: $app_name}) ON CREATE SET a.state = []
SET a.lock = 0
WITH a, [i IN range(0, size($state.keys) - 1) WHERE none(m IN a.state WHERE m STARTS WITH $state.keys[i])] AS missing
SET a.state = a.state + [i IN missing | $state.members[i]]
RETURN size(missing) AS added

// import_user_state
// the same of a user's state
// include ensure_user
SET u.lock = 0
WITH u, [i IN range(0, size($state.keys) - 1) WHERE none(m IN u.state WHERE m STARTS WITH $state.keys[i])] AS missing
SET u.state = u.state + [i IN missing | $state.members[i]]
RETURN size(missing) AS added

// finish_session_import
// nothing; the state and time of a session that holds these events and no more
MATCH (s:@Session {scope: $scope, id: $id})
WHERE s.uid = $uid AND s.revision = $revision
SET s.state = $state.members, s.last_update_time = $update_time

// told_memories
// a row for each of these memories that the user was told directly: what it says
MATCH (f:@Memory {scope: $scope}) WHERE f.memory_id IN $ids AND f:@Fact
RETURN f.memory_id AS id, f.text AS text, f.timestamp AS timestamp, f.author AS author, coalesce(f.metadata, []) AS metadata
