// sessions_stored @fragment
// how many sessions of u are stored, expired ones too: an index tells, and no session is read
COUNT { MATCH (s:@Session {scope: u.scope}) WHERE s.last_update_time IS NOT NULL }

// turns_stored @fragment
// the same of turns in memory
COUNT { MATCH (e:@Event {scope: u.scope}) WHERE e.memory_id IS NOT NULL }

// facts_stored @fragment
// the same of facts
COUNT { MATCH (f:@Fact {scope: u.scope}) WHERE f.id IS NOT NULL }

// store_counts @operator
// three rows: how many users, sessions and memories the database holds; Neo4j keeps these counts
// of several users: an operator sees how large the store is
MATCH (u:@User) WITH count(u) AS number RETURN 'users' AS name, number
UNION ALL MATCH (s:@Session) WITH count(s) AS number RETURN 'sessions' AS name, number
UNION ALL MATCH (m:@Memory) WITH count(m) AS number RETURN 'memories' AS name, number

// counted_apps @operator
// a row for each app behind a name, by name: how many users it has, and of their requests how many are unfinished, and how many failed
// of several users: an operator looks for the app in which something is wrong
MATCH (one:@User) WHERE one.app_name > $after
WITH DISTINCT one.app_name AS app_name ORDER BY app_name LIMIT $limit
WITH collect(app_name) AS app_names
CALL (app_names) {
  UNWIND ['pending', 'claimed'] AS state
  MATCH (i:@Ingest {state: state})
  WHERE
// include reads_turns
  MATCH (u:@User {scope: i.scope}) WHERE u.app_name IN app_names
  WITH u.app_name AS app_name, count(i) AS pending, count(CASE WHEN
// include has_failed
    THEN i END) AS failed
  RETURN collect({app_name: app_name, pending: pending, failed: failed}) AS queues
}
UNWIND app_names AS app_name
WITH app_name, head([queue IN queues WHERE queue.app_name = app_name]) AS queue
RETURN app_name, COUNT { MATCH (u:@User {app_name: app_name}) } AS users,
       coalesce(queue.pending, 0) AS pending, coalesce(queue.failed, 0) AS failed
ORDER BY app_name

// stored_of_apps @operator
// a row for each of these apps: how much is stored of its users
// of several users: an operator compares apps
UNWIND $app_names AS app_name
MATCH (u:@User {app_name: app_name})
RETURN app_name,
       sum(
// include sessions_stored
       ) AS sessions,
       sum(
// include turns_stored
       ) AS turns,
       sum(
// include facts_stored
       ) AS facts

// counted_users @operator
// a row for each user of the app behind an id whose id contains a text, by id: how much is stored, how many requests are unfinished,
// how many failed, and when anything was last written
// of several users: an operator looks for a user
MATCH (u:@User {app_name: $app_name})
WHERE u.user_id > $after AND toLower(u.user_id) CONTAINS toLower($search)
WITH u ORDER BY u.user_id LIMIT $limit
RETURN u.app_name AS app_name, u.user_id AS user_id, u.scope AS key,
// include sessions_stored
       AS sessions,
// include turns_stored
       AS turns,
// include facts_stored
       AS facts,
       COUNT {
         MATCH (i:@Ingest {scope: u.scope}) WHERE i.state IN ['pending', 'claimed'] AND
// include reads_turns
       } AS pending,
       COUNT {
         MATCH (i:@Ingest {scope: u.scope}) WHERE i.state IN ['pending', 'claimed'] AND
// include reads_turns
         AND
// include has_failed
       } AS failed,
       head(COLLECT {
         CALL (u) {
           MATCH (s:@Session {scope: u.scope}) WHERE s.last_update_time IS NOT NULL RETURN max(s.last_update_time) AS seconds
           UNION ALL
           MATCH (i:@Ingest {scope: u.scope}) WHERE i.state IS NOT NULL
           RETURN max(coalesce(i.done_at, i.requested_at).epochMillis) / 1000.0 AS seconds
         }
         RETURN max(seconds)
       }) AS written_at
ORDER BY user_id

// owner_of_key @operator
// one row, or none: whose memory a scope's key stands for
// of several users: an operator follows a link to a user
MATCH (u:@User {scope: $key}) WHERE u.user_id IS NOT NULL
RETURN u.app_name AS app_name, u.user_id AS user_id

// day_reports @operator
// a row for each day and extractor of an app's finished requests before a day, of so many at most, the latest first: their reports, in
// how many sessions, and how many tries failed before
// of several users: an operator asks what an app costs
MATCH (u:@User {app_name: $app_name})
CALL (u) { MATCH (i:@Ingest {scope: u.scope, state: 'done'}) WHERE i.done_at < datetime($before) AND i.report IS NOT NULL RETURN i }
WITH i ORDER BY i.done_at DESC LIMIT $limit
WITH date(i.done_at) AS day, i.extractor AS extractor, collect(i.report) AS reports,
     count(DISTINCT [i.scope, i.session_id]) AS sessions, sum(CASE WHEN i.attempts > 1 THEN i.attempts - 1 ELSE 0 END) AS failures
RETURN toString(day) AS day, extractor, reports, sessions, failures
ORDER BY day DESC, extractor
