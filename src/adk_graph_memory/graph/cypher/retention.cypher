// session_stands @fragment
// whether a session has not expired by $now; its own expiry counts before the setting, which goes by its last activity
coalesce(s.expires_at > $now, $retention.session_ttl IS NULL OR s.last_update_time > $now - $retention.session_ttl)

// event_stands @fragment
// whether an event is still kept in its session
($retention.event_ttl IS NULL OR e.timestamp > $now - $retention.event_ttl)

// live_user_state @fragment
// a user's state, empty once it has expired: the setting goes by its last change
CASE WHEN $retention.user_state_ttl IS NULL OR u.state_time IS NULL OR u.state_time > $retention.now - $retention.user_state_ttl
  THEN u.state ELSE [] END

// version_stands @fragment
// whether a version of an artifact is still kept
($retention.artifact_ttl IS NULL OR v.create_time > $retention.now - $retention.artifact_ttl)

// revision_stands @fragment
// whether it is still kept what a fact was before
coalesce(r.expires_at > $retention.now,
  $retention.revision_ttl IS NULL OR r.recorded_at.epochSeconds > $retention.now - $retention.revision_ttl)

// memory_stands @fragment
// whether a memory has not expired; its own expiry counts before the setting, which goes by when it was last said
coalesce(memory.expires_at > $retention.now,
  $retention.memory_ttl IS NULL OR coalesce(memory.heard_at, memory.timestamp) > $retention.now - $retention.memory_ttl)

// node_stands @fragment
// the same of a memory found by a search
coalesce(node.expires_at > $retention.now,
  $retention.memory_ttl IS NULL OR coalesce(node.heard_at, node.timestamp) > $retention.now - $retention.memory_ttl)

// fact_stands @fragment
// the same of a fact
coalesce(f.expires_at > $retention.now,
  $retention.memory_ttl IS NULL OR coalesce(f.heard_at, f.timestamp) > $retention.now - $retention.memory_ttl)

// support_expiry @fragment
// when a fact expires that rests on turns: with the last of them, never if one of them never expires (null comes first)
head(COLLECT { MATCH (f)-[:SUPPORTED_BY]->(e) RETURN e.expires_at ORDER BY e.expires_at DESC LIMIT 1 })

// last_heard @fragment
// when a fact was last said
head(COLLECT { MATCH (f)-[:SUPPORTED_BY]->(e) RETURN e.timestamp ORDER BY e.timestamp DESC LIMIT 1 })

// date_turns
// nothing; turns expire when a caller says, and with them the facts that rest on no other; what is given again as evidence counts
UNWIND $rows AS row
MATCH (e:@Event {scope: $scope, memory_id: row.memory_id})
SET e.expires_at = CASE WHEN row.is_evidence THEN row.expires_at ELSE coalesce(row.expires_at, e.expires_at) END,
    e.revisions_expire_at = coalesce(row.revisions_expire_at, e.revisions_expire_at)
WITH collect(e) AS events
UNWIND events AS turn
MATCH (turn)<-[:SUPPORTED_BY]-(f:@Fact) WHERE NOT f.direct
WITH DISTINCT f
SET f.expires_at =
// include support_expiry
