// revision_signature
CREATE INDEX @revision_signature IF NOT EXISTS FOR (n:@Revision) ON (n.scope, n.signature)
