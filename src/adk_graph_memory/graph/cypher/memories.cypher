// known_entity @fragment
// an entity, with the keys of those merged into it
n {.key, .name, .type, .aliases, .about, .own_names, .foreign_names, merged_keys: COLLECT { MATCH (m)-[:MERGED_INTO*]->(n) RETURN m.key }}

// entities_by_name
// one row: the entities of these keys or alike names, or of whom they were merged into; and how often this user was written to
CALL () {
  UNWIND $keys AS wanted
  MATCH (found:@Entity {scope: $scope, key: wanted})
  RETURN found
  UNION
  UNWIND $queries AS query
  CALL db.index.fulltext.queryNodes('@entity_text', query, {limit: $namesakes}) YIELD node AS found
  WHERE found.scope = $scope
  RETURN found
}
MATCH (found)-[:MERGED_INTO*0..]->(n) WHERE NOT (n)-[:MERGED_INTO]->()
WITH DISTINCT n
WITH collect(
// include known_entity
) AS entities
RETURN entities, coalesce(head(COLLECT { MATCH (u:@User {scope: $scope}) RETURN u.writes }), 0) AS writes

// near_facts
// a row for each of these texts and each of an entity's latest facts that means something alike
UNWIND $rows AS of
CALL (of) {
  MATCH (:@Entity {scope: $scope, key: of.entity})<-[:SUBJECT|OBJECT]-(f:@Fact)
  WHERE f.open AND f[$slot] IS NOT NULL
  WITH DISTINCT f ORDER BY f.timestamp DESC, f.id LIMIT $recent
  RETURN collect(f) AS recent
}
UNWIND of.texts AS said
CALL (said, recent) {
  UNWIND recent AS f
  WITH said, f WHERE size(f[$slot]) = size(said.vector)
  WITH said, f, vector.similarity.cosine(f[$slot], said.vector) AS score
  WHERE score >= $near
  RETURN f, score ORDER BY score DESC, f.id LIMIT $nearest
}
RETURN DISTINCT said.text AS text, f.id AS fact, score

// candidate_facts
// one row: ids of the facts that an extraction may be about, those next to them included; which of them are looked at for
// their own sake (what plans among them were to end too, and what ended and rests on any, and the bases); the links between
// any of them, and what rests on what; those of one pair, with text and score; those last heard of any entity named, and open
// plans of any; the tombstones
CALL () {
  MATCH (f:@Fact {scope: $scope}) WHERE f.signature IN $signatures RETURN f, null AS text, 0.0 AS score
  UNION
  MATCH (f:@Fact {scope: $scope}) WHERE f.id IN $signatures RETURN f, null AS text, 0.0 AS score
  UNION
  MATCH (r:@Revision {scope: $scope}) WHERE r.signature IN $signatures
  MATCH (f:@Fact)-[:HAS_REVISION]->(r) RETURN f, null AS text, 0.0 AS score
  UNION
  UNWIND $slots AS slot
  CALL (slot) {
    MATCH (:@Entity {scope: $scope, key: slot.subject})<-[:SUBJECT]-(f:@Fact)
    WHERE f.predicate = slot.predicate
    RETURN f ORDER BY f.timestamp DESC, f.id LIMIT $most
  }
  RETURN f, null AS text, 0.0 AS score
  UNION
  UNWIND $pairs AS pair
  CALL (pair) {
    MATCH (:@Entity {scope: $scope, key: pair.object})<-[:SUBJECT|OBJECT]-(f:@Fact)-[:SUBJECT|OBJECT]->(:@Entity {scope: $scope, key: pair.subject})
    RETURN DISTINCT f ORDER BY f.timestamp DESC, f.id LIMIT $nearest
  }
  RETURN f, pair.text AS text, 1.0 AS score
  UNION
  MATCH (f:@Fact {scope: $scope}) WHERE f.id IN $alike RETURN f, null AS text, 0.0 AS score
  UNION
  UNWIND $entities AS entity
  MATCH (:@Entity {scope: $scope, key: entity})<-[:SUBJECT|OBJECT]-(f:@Fact)
  WHERE f.open
  WITH DISTINCT f ORDER BY f.timestamp DESC, f.id LIMIT $around
  RETURN f, '' AS text, f.timestamp AS score
  UNION
  UNWIND $entities AS entity
  MATCH (:@Entity {scope: $scope, key: entity})<-[:SUBJECT|OBJECT]-(f:@Fact)
  WHERE f.open AND f.modality = 'planned'
  WITH DISTINCT f ORDER BY f.timestamp DESC, f.id LIMIT $plans
  RETURN f, '' AS text, f.timestamp AS score
}
WITH collect(DISTINCT f) AS sought, collect(CASE WHEN text IS NOT NULL THEN {text: text, fact: f.id, score: score} END) AS hits
WITH sought, [hit IN hits WHERE hit.text <> ''] AS near, [hit IN hits WHERE hit.text = '' | hit.fact] AS around
CALL (sought) {
  UNWIND sought AS f
  CALL (f) {
    RETURN f AS found
    UNION
    MATCH (f)((plan WHERE plan.modality IN ['planned', 'hypothetical'])-[:SUPERSEDES|WOULD_SUPERSEDE]->()){1,4}(found:@Fact)
    RETURN found
  }
  WITH DISTINCT found
  CALL (found) {
    RETURN found AS rests
    UNION
    MATCH (found)<-[:DEPENDS_ON*1..4]-(rests:@Fact) WHERE rests.state = 'superseded'
    RETURN rests
  }
  WITH DISTINCT rests
  MATCH (rests)-[:DEPENDS_ON*0..4]->(one:@Fact)
  RETURN collect(DISTINCT one) AS core
}
CALL (core) {
  UNWIND core AS f
  MATCH (f)-[:SUPERSEDES|WOULD_SUPERSEDE*0..1]-(beside:@Fact)
  WITH DISTINCT beside
  MATCH (beside)((plan WHERE plan.modality IN ['planned', 'hypothetical'])<-[:SUPERSEDES]-()){0,4}(by:@Fact)
  RETURN collect(DISTINCT by) AS facts
}
OPTIONAL MATCH (grave:@Tombstone {scope: $scope}) WHERE grave.key IN $tombstones
WITH core, near, around, facts, collect(grave.key) AS forgotten
RETURN near, around, forgotten, [f IN core | f.id] AS core,
  COLLECT {
    UNWIND facts AS a
    MATCH (a)-[s:SUPERSEDES|WOULD_SUPERSEDE]->(b) WHERE b IN facts
    RETURN {later: a.id, earlier: b.id, op: s.op, reason: s.reason, is_void: type(s) = 'WOULD_SUPERSEDE'}
  } AS links,
  COLLECT { UNWIND facts AS a MATCH (a)-[:DEPENDS_ON]->(b) WHERE b IN facts RETURN [a.id, b.id] } AS dependencies,
  [f IN facts | f.id] AS facts

// fact_properties @fragment
// what a fact's own node says of it
.text, .predicate, .modality, .valid_from, .valid_to, .said_to, .valid_from_precision, .valid_to_precision,
  .said_to_precision, .topic, .author, .timestamp, .offset, .correction, .single, .state, .pinned, .upheld_until,
  .owner_retracted_at, .ruling_reason, .origin

// fact_columns @fragment
// a fact with whom it is about and the words that it rests on
  .id,
// include fact_properties
  ,
  subject: head(COLLECT { MATCH (f)-[:SUBJECT]->(s) RETURN s.key }),
  object: head(COLLECT { MATCH (f)-[:OBJECT]->(o) RETURN o.key }),
  subject_was: head(COLLECT { MATCH (f)-[r:SUBJECT]->() RETURN r.was }),
  object_was: head(COLLECT { MATCH (f)-[r:OBJECT]->() RETURN r.was }),
  absorbed: COLLECT { MATCH (f)-[:HAS_REVISION]->(r) WHERE r.op IN ['REFINE', 'REINFORCE'] RETURN r.signature },
  sources: COLLECT {
    MATCH (f)-[s:SUPPORTED_BY]->(e)
    RETURN s {.quote, .start, .end, .verified, turn_id: e.memory_id, session_id: e.session_id, timestamp: e.timestamp, offset: e.offset, seq: e.seq, author: e.author, origin: coalesce(s.origin, e.origin)}
  }

// known_facts
// a row for each of these facts, but those told to memory itself: all that it says, and the words that it rests on
MATCH (f:@Fact {scope: $scope}) WHERE f.id IN $ids AND NOT f.direct
RETURN f {
// include fact_columns
} AS fact

// write_entities
// nothing; entities as they are from now on or, of a window, with what it adds to them; and the turns that mention them,
// perhaps before an entity has its name. What was said of those whom an entity absorbs is said of it from now on, and given back if they part again
CALL () {
  UNWIND $entities AS row
  MERGE (n:@Entity {scope: $scope, key: row.key})
  SET n.created_at = coalesce(n.created_at, datetime())
  FOREACH (_ IN CASE WHEN row.is_whole AND n.name <> row.name THEN [1] ELSE [] END | SET n.embedding_a = null, n.embedding_b = null)
  FOREACH (_ IN CASE WHEN row.is_whole OR n.name IS NULL THEN [1] ELSE [] END |
    SET n.name = row.name, n.type = row.type, n.aliases = row.aliases, n.about = row.about)
  FOREACH (_ IN CASE WHEN row.is_whole THEN [1] ELSE [] END |
    SET n.own_names = CASE row.own_names WHEN [] THEN null ELSE row.own_names END,
      n.foreign_names = CASE row.foreign_names WHEN [] THEN null ELSE row.foreign_names END)
  SET n.aliases = n.aliases + [a IN row.aliases WHERE NOT a IN n.aliases AND a <> n.name],
    n.about = CASE coalesce(n.about, '') WHEN '' THEN row.about ELSE n.about END
  WITH n, row
  CALL (n, row) {
    MATCH (n)-[old:MERGED_INTO]->(former) WHERE row.is_whole AND former.key <> coalesce(row.merged_into, '')
    DELETE old
  }
  FOREACH (key IN CASE WHEN row.merged_into IS NULL THEN [] ELSE [row.merged_into] END |
    MERGE (one:@Entity {scope: $scope, key: key})
    MERGE (n)-[merged:MERGED_INTO]->(one)
    ON CREATE SET merged.at = datetime()
    SET merged.by = row.merged_by, merged.reason = row.merge_reason)
  WITH n, row
  CALL (n, row) {
    UNWIND row.merged_keys AS key
    MATCH (gone:@Entity {scope: $scope, key: key})
    MERGE (gone)-[merged:MERGED_INTO]->(n) ON CREATE SET merged.at = datetime(), merged.by = row.merged_by, merged.reason = row.merge_reason
    WITH gone, n
    MATCH (speaks)-[r:SUBJECT|OBJECT|MENTIONS]->(gone)
    MERGE (speaks)-[new:$(type(r))]->(n) ON CREATE SET new.was = coalesce(r.was, gone.key)
    DELETE r
  }
  CALL (n, row) {
    WITH n, row WHERE row.split_from <> ''
    MATCH (n)-[:MERGED_INTO*]->(one) WHERE NOT (one)-[:MERGED_INTO]->()
    MATCH (n)-[merged:MERGED_INTO]->()
    DELETE merged
    SET one.aliases = [a IN one.aliases WHERE a <> n.name AND NOT a IN n.aliases]
    WITH n, one, [n.key] + COLLECT { MATCH (other)-[:MERGED_INTO*]->(n) RETURN other.key } AS keys
    MATCH (speaks)-[r:SUBJECT|OBJECT|MENTIONS]->(one) WHERE r.was IN keys
    MERGE (speaks)-[new:$(type(r))]->(n) SET new.was = CASE r.was WHEN n.key THEN null ELSE r.was END
    DELETE r
  }
  WITH n, row WHERE row.vector IS NOT NULL
  CALL db.create.setNodeVectorProperty(n, $slot, row.vector)
}
CALL () {
  UNWIND $mentions AS mention
  MATCH (e:@Event {scope: $scope, memory_id: mention.event})
  MERGE (n:@Entity {scope: $scope, key: mention.key})
  MERGE (e)-[m:MENTIONS]->(n) ON CREATE SET m.was = mention.was
}

// write_events
// nothing; evidence is no memory that a search could find
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.memory_id})
SET e.extracted = row.extracted, e.manner = row.manner, e.writer = row.writer
FOREACH (_ IN CASE WHEN row.shown IS NULL THEN [] ELSE [1] END | SET e.text = row.text, e.own_text = row.own_text, e.shown = row.shown)
FOREACH (_ IN CASE WHEN row.is_evidence THEN [] ELSE [1] END |
  SET e:@Memory, e.kind = 'event', e.open = true, e.words = row.words,
      e.unembedded = CASE WHEN row.vector IS NULL AND $embeds THEN true END)
WITH e, row WHERE row.vector IS NOT NULL
SET e[$tokens] = row.tokens
WITH e, row
CALL db.create.setNodeVectorProperty(e, $slot, row.vector)

// write_facts
// nothing; a fact whose every word was forgotten while it was read is not written, one that nothing supports goes
UNWIND $rows AS row
WITH row WHERE row.direct OR NOT row.is_new OR EXISTS { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IN [said IN row.sources | said.event] }
MERGE (f:@Fact {scope: $scope, id: row.id})
ON CREATE SET f:@Memory, f.kind = 'fact', f.memory_id = 'fact:' + row.id, f.recorded_at = coalesce(row.recorded_at, datetime()),
  f.direct = row.direct, f.support = 0
SET f += row.columns,
  f.retired_at = CASE WHEN row.columns.state = 'retracted' THEN coalesce(f.retired_at, row.retired_at, datetime()) END,
  f.metadata = [m IN coalesce(f.metadata, []) WHERE none(k IN row.metadata.keys WHERE m STARTS WITH k)] + row.metadata.members
FOREACH (_ IN CASE WHEN row.is_reworded THEN [1] ELSE [] END |
  SET f.embedding_a = null, f.embedding_b = null, f.tokens_a = null, f.tokens_b = null)
FOREACH (_ IN CASE WHEN row.vector IS NULL AND $embeds AND f[$slot] IS NULL THEN [1] ELSE [] END | SET f.unembedded = true)
WITH f, row
CALL (f, row) {
  MATCH (f)-[r:SUBJECT]->(n) WHERE n.key <> coalesce(row.subject, '')
  DELETE r
}
CALL (f, row) {
  MATCH (f)-[r:OBJECT]->(n) WHERE n.key <> coalesce(row.object, '')
  DELETE r
}
FOREACH (key IN CASE WHEN row.subject IS NULL THEN [] ELSE [row.subject] END |
  MERGE (s:@Entity {scope: $scope, key: key}) MERGE (f)-[r:SUBJECT]->(s) SET r.was = row.subject_was)
FOREACH (key IN CASE WHEN row.object IS NULL THEN [] ELSE [row.object] END |
  MERGE (o:@Entity {scope: $scope, key: key}) MERGE (f)-[r:OBJECT]->(o) SET r.was = row.object_was)
WITH f, row
CALL (f, row) {
  UNWIND row.sources AS said
  MATCH (e:@Event {scope: $scope, memory_id: said.event})
  MERGE (f)-[s:SUPPORTED_BY {key: said.key}]->(e)
  SET s.quote = said.quote, s.start = said.start, s.end = said.end, s.verified = said.verified, s.origin = said.origin
}
CALL (f, row) {
  UNWIND row.moved AS said
  MATCH (f)-[s:SUPPORTED_BY {key: said.key}]->(:@Event {scope: $scope, memory_id: said.event})
  DELETE s
}
SET f.support = COUNT { (f)-[:SUPPORTED_BY]->() },
  f.heard_at =
// include last_heard
  , f.expires_at = CASE WHEN row.direct THEN coalesce(row.expires_at, CASE WHEN f.expires_at > $retention.now THEN f.expires_at END) ELSE
// include support_expiry
  END, f.origin = CASE WHEN row.direct THEN row.origin ELSE
// include strongest_origin
  END
WITH f, row, f.support = 0 AND NOT f.direct AS is_bare
CALL (f, is_bare) {
  MATCH (f) WHERE is_bare
  OPTIONAL MATCH (f)-[:HAS_REVISION]->(r)
  DETACH DELETE f, r
}
WITH f, row, is_bare WHERE NOT is_bare AND row.vector IS NOT NULL
SET f.unembedded = null, f[$tokens] = row.tokens
WITH f, row
CALL db.create.setNodeVectorProperty(f, $slot, row.vector)

// write_changes
// nothing; what ended what, what rests on what, what the facts were before, and which of them are stale: facts that rest
// on one which was unmade, or which ended after they were last heard; a plan that came true did not end for them
CALL () {
  UNWIND $links AS link
  MATCH (later:@Fact {scope: $scope, id: link.later})
  MATCH (earlier:@Fact {scope: $scope, id: link.earlier})
  OPTIONAL MATCH (later)-[was:SUPERSEDES|WOULD_SUPERSEDE]->(earlier)
  WITH link, later, earlier, was, was.reason AS reason, was.recorded_at AS recorded_at
  DELETE was
  MERGE (later)-[s:$(CASE WHEN link.is_void THEN 'WOULD_SUPERSEDE' ELSE 'SUPERSEDES' END)]->(earlier)
  SET s.op = link.op, s.recorded_at = coalesce(recorded_at, link.recorded_at, datetime()),
      s.reason = CASE link.reason WHEN '' THEN coalesce(reason, '') ELSE link.reason END
}
CALL () {
  UNWIND $dependencies AS dependency
  MATCH (f:@Fact {scope: $scope, id: dependency[0]})
  MATCH (base:@Fact {scope: $scope, id: dependency[1]})
  MERGE (f)-[:DEPENDS_ON]->(base)
}
CALL () {
  UNWIND $revisions AS revision
  MATCH (f:@Fact {scope: $scope, id: revision.fact_id})
  MERGE (r:@Revision {scope: $scope, fact_id: revision.fact_id, n: revision.n})
  ON CREATE SET r += revision.properties, r.recorded_at = coalesce(revision.recorded_at, datetime())
  MERGE (f)-[:HAS_REVISION]->(r)
  WITH r, revision
  UNWIND revision.evidence AS said
  MATCH (e:@Event {scope: $scope, memory_id: said.event})
  MERGE (r)-[b:BECAUSE_OF {key: said.key}]->(e)
  ON CREATE SET b.start = said.start, b.end = said.end
  SET r.expires_at = CASE WHEN r.expires_at > e.revisions_expire_at THEN r.expires_at
    ELSE coalesce(e.revisions_expire_at, r.expires_at) END
}
CALL () {
  UNWIND $touched AS id
  MATCH (changed:@Fact {scope: $scope, id: id})
  OPTIONAL MATCH (rests:@Fact)-[:DEPENDS_ON*1..4]->(changed)
  WITH collect(changed) + collect(rests) AS facts
  UNWIND facts AS f
  WITH DISTINCT f
  WITH f, head(COLLECT { MATCH (f)-[:SUPPORTED_BY]->(e) RETURN e.timestamp ORDER BY e.timestamp DESC LIMIT 1 }) AS heard
  SET f.stale = CASE WHEN EXISTS {
    MATCH (f)-[:DEPENDS_ON*1..4]->(base:@Fact)
    WHERE base.state = 'retracted' OR (base.state = 'superseded' AND base.valid_to.epochMillis > heard * 1000
      AND (base.modality <> 'planned' OR EXISTS { (base)<-[:SUPERSEDES]-(later) WHERE later.modality <> 'asserted' }))
  } THEN true END
}

// embed_memories
// nothing
UNWIND $rows AS row
MATCH (n:@Memory {scope: $scope, memory_id: row.memory_id})
SET n.unembedded = null, n[$tokens] = row.tokens
WITH n, row
CALL db.create.setNodeVectorProperty(n, $slot, row.vector)

// know_user
// nothing
// include ensure_user

// counts
// one row: how much of each kind the graph holds of a user
RETURN COUNT { MATCH (s:@Session {scope: $scope}) WHERE s.id IS NOT NULL } AS sessions,
       COUNT { MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL } AS turns,
       COUNT { MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND NOT (n)-[:MERGED_INTO]->() } AS entities,
       COUNT { MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL } AS facts

// changed_facts
// a row for each fact that ended, was corrected, reworded or heard again, the latest change first: its words, what ended
// it, and its revisions
MATCH (f:@Fact {scope: $scope})
WHERE f.id IS NOT NULL AND (f.state <> 'current' OR f.support > 1 OR EXISTS { (f)-[:HAS_REVISION]->() })
RETURN f.text AS text, f.state AS state, f.timestamp AS timestamp, f.valid_to AS valid_to,
       COLLECT { MATCH (f)-[s:SUPPORTED_BY]->(e) RETURN s.quote ORDER BY e.timestamp, e.seq } AS quotes,
       COLLECT { MATCH (later)-[s:SUPERSEDES]->(f) RETURN later.text ORDER BY later.timestamp LIMIT 1 } AS ended_by,
       COLLECT {
         MATCH (f)-[:HAS_REVISION]->(r)
         WHERE
// include revision_stands
         RETURN r {.op, .text, .reason, .by} ORDER BY r.op, r.text
       } AS revisions
ORDER BY coalesce(f.valid_to, f.recorded_at) DESC, f.text
