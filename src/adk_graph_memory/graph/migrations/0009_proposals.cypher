// memory_proposal
CREATE INDEX @memory_proposal IF NOT EXISTS FOR (n:@Memory) ON (n.scope, n.proposal_id)
