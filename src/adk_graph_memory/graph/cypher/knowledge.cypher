// holds @fragment
// whether a fact is so at $now, as far as is known
f.state <> 'retracted' AND f.stale IS NULL AND coalesce(f.valid_to > $now, f.state = 'current')

// lies_behind @fragment
// whether a fact is nothing that ended: what was planned for days that are over, or happened on them, by $now
f.state = 'current' AND f.stale IS NULL AND f.valid_to <= $now
  AND (f.modality = 'planned' OR (f.modality = 'asserted' AND f.valid_from IS NOT NULL))

// facts_held @fragment
// how many facts that hold speak of an entity
COUNT {
  MATCH (n)<-[:SUBJECT|OBJECT]-(f:@Fact)
  WHERE
// include fact_stands
  AND
// include holds
  RETURN DISTINCT f
}

// entity_stands @fragment
// whether anything that speaks of an entity has not expired
(NOT EXISTS { (n)<-[:SUBJECT|OBJECT|MENTIONS]-() } OR EXISTS {
  MATCH (n)<-[:SUBJECT|OBJECT|MENTIONS]-(memory)
  WHERE
// include memory_stands
})

// stored_entity @fragment
// an entity with the number of its facts that hold
RETURN n.key AS key, n.name AS name, n.type AS type, n.aliases AS aliases, n.about AS about,
// include facts_held
  AS facts

// listed_fact @fragment
// what a list tells of a fact
  id: f.memory_id, .stale,
// include fact_properties
  ,
  subject: head(COLLECT { MATCH (f)-[:SUBJECT]->(n) RETURN n {.key, .name, .type} }),
  object: head(COLLECT { MATCH (f)-[:OBJECT]->(n) RETURN n {.key, .name, .type} })

// listed_sources @fragment
// the words that a fact rests on, in the order in which they were said
COLLECT {
  MATCH (f)-[s:SUPPORTED_BY]->(memory)
  WHERE
// include memory_stands
  WITH s, memory AS e
  RETURN s {.quote, .start, .end, .verified, turn_id: e.id, session_id: e.session_id, timestamp: e.timestamp, offset: e.offset, seq: e.seq, author: e.author, origin: coalesce(s.origin, e.origin)}
  ORDER BY e.timestamp, e.seq
}

// stored_fact @fragment
// a fact with its entities and the words that it rests on
RETURN f {
// include listed_fact
  , sources:
// include listed_sources
} AS fact

// rival_values
// a row for each subject and single-valued predicate with several facts that hold and name no object: their texts
MATCH (f:@Fact {scope: $scope})
WHERE f.id IS NOT NULL AND f.single AND f.modality = 'asserted' AND NOT (f)-[:OBJECT]->() AND
// include holds
  AND
// include fact_stands
MATCH (f)-[:SUBJECT]->(n)
WITH n.key AS subject, f.predicate AS predicate, collect(f.text) AS texts WHERE size(texts) > 1
RETURN subject, predicate, texts

// facts
// a row for each of the user's facts (of all, or of those that hold, happened or were planned; about these
// entities; or the one of this id), the newest first
MATCH (f:@Fact {scope: $scope})
WHERE f.id IS NOT NULL AND
// include fact_stands
  AND ($after IS NULL OR f.timestamp < $after.timestamp OR (f.timestamp = $after.timestamp AND f.id > $after.id))
  AND ($all OR (
// include holds
  ) OR (
// include lies_behind
  ))
  AND ($id IS NULL OR f.memory_id = $id)
  AND ($about IS NULL OR EXISTS {
    MATCH (f)-[:SUBJECT|OBJECT]->(n:@Entity)
    WHERE n.key IN $about
  })
WITH f ORDER BY f.timestamp DESC, f.id LIMIT $limit
// include stored_fact
ORDER BY f.timestamp DESC, f.id

// fact_place
// one row, or none: where a fact stands in that listing
MATCH (f:@Memory {scope: $scope, memory_id: $id}) WHERE f:@Fact
RETURN f.timestamp AS timestamp, f.id AS id

// named_entities
// a row for each of the user's entities with this key, name or alias in any case, or of all, behind a key in their order
MATCH (n:@Entity {scope: $scope})
WHERE n.key > coalesce($after, '')
  AND ($name IS NULL OR n.key = $name OR any(name IN [n.name] + n.aliases WHERE toLower(name) = toLower($name)))
RETURN n.key AS key, n.name AS name, n.aliases AS aliases ORDER BY key LIMIT $limit

// entities
// a row for each of the user's entities (of one type, of one name, alias or key, or of all), that of most facts first
MATCH (n:@Entity {scope: $scope})
WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->() AND ($type IS NULL OR toLower(n.type) = toLower($type))
  AND ($name IS NULL OR n.key = $name OR any(name IN [n.name] + n.aliases WHERE toLower(name) = toLower($name)))
  AND
// include entity_stands
WITH n,
// include facts_held
  AS facts
WHERE $after IS NULL OR facts < $after.facts OR (facts = $after.facts AND n.key > $after.key)
WITH n, facts ORDER BY facts DESC, n.key LIMIT $limit
RETURN n.key AS key, n.name AS name, n.type AS type, n.aliases AS aliases, n.about AS about, facts

// entity_place
// one row, or none: where an entity stands in that listing
MATCH (n:@Entity {scope: $scope, key: $key})
RETURN n.key AS key,
// include facts_held
  AS facts

// known_owner @operator
// one row, or none: whether there is a user of this id, in this app
// of several users: a command with an empty result asks whether there is such an app or user; it returns a yes
MATCH (u:@User)
WHERE u.scope IS NOT NULL AND ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
RETURN true AS is_known LIMIT 1

// filling
// one row: whether memory holds anything of the app's users, and how many sessions with events this user has
RETURN EXISTS {
         MATCH (u:@User {app_name: $app_name})
         MATCH (n:@Memory {scope: u.scope}) WHERE n.memory_id IS NOT NULL
       } AS has_memories,
       COUNT { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL AND s.revision > 0 } AS sessions

// sessions_held @fragment
// how many sessions u has that have not expired
COUNT {
  MATCH (s:@Session {scope: u.scope})
  WHERE s.last_update_time IS NOT NULL AND coalesce(s.expires_at > $retention.now,
    $retention.session_ttl IS NULL OR s.last_update_time > $retention.now - $retention.session_ttl)
}

// facts_known @fragment
// how many facts memory has of u, ended ones too, as the listing of all facts has them
COUNT {
  MATCH (f:@Fact {scope: u.scope})
  WHERE f.id IS NOT NULL AND
// include fact_stands
}

// users @operator
// a row for each user of the app, by id: how many sessions they have, turns in memory, and facts
// of several users: an operator lists an app's users, and how much is stored of each
MATCH (u:@User {app_name: $app_name})
WHERE $after IS NULL OR u.user_id > $after
WITH u ORDER BY u.user_id LIMIT $limit
RETURN u.app_name AS app_name, u.user_id AS user_id,
// include sessions_held
       AS sessions,
       COUNT {
         MATCH (memory:@Event {scope: u.scope}) WHERE memory.memory_id IS NOT NULL AND
// include memory_stands
       } AS turns,
// include facts_known
       AS facts
ORDER BY user_id

// apps @operator
// a row for each app, by name: how many users and sessions it has, and facts of them
// of several users: an operator lists the apps, and how much is stored of each
MATCH (one:@User) WHERE one.app_name IS NOT NULL AND ($after IS NULL OR one.app_name > $after)
WITH DISTINCT one.app_name AS app_name ORDER BY app_name LIMIT $limit
MATCH (u:@User {app_name: app_name})
RETURN app_name, count(u) AS users,
       sum(
// include sessions_held
       ) AS sessions,
       sum(
// include facts_known
       ) AS facts
ORDER BY app_name

// owners @operator
// a row for each user (of this app, of this id, or of all), by scope
// of several users: an operator checks the memory of anybody, each in its own scope
MATCH (u:@User)
WHERE u.scope > $after AND ($app_name IS NULL OR u.app_name = $app_name) AND ($user_id IS NULL OR u.user_id = $user_id)
RETURN u.scope AS scope, u.app_name AS app_name, u.user_id AS user_id ORDER BY scope LIMIT $limit

// unfinished_counts
// one row: how many requests of a user wait or are being read, how many memories lack their vector, and how many turns no model
// could read
RETURN COUNT { MATCH (i:@Ingest {scope: $scope}) WHERE i.state IN ['pending', 'claimed'] } AS waiting,
       COUNT { MATCH (m:@Memory {scope: $scope, unembedded: true}) } AS unembedded,
       COUNT { MATCH (i:@Ingest {scope: $scope})-[reads:READS]->(e:@Event) WHERE i.state IS NOT NULL AND reads.unread IS NOT NULL AND e.ingest = i.id } AS unread
