// proposals
// a row for each change that agents propose to this user, oldest first, and whether it can still be made
MATCH (memory:@Memory {scope: $scope})
WHERE memory.proposal_id IS NOT NULL
RETURN memory.proposal_id AS id, memory.proposal_action AS action, memory.memory_id AS memory_id,
       memory.text AS memory_text, memory.proposal_text AS text, memory.proposal_reason AS reason,
       memory.proposal_by AS by, memory.proposal_at AS at, coalesce(memory.pinned, false) AS is_pinned,
       (memory.proposal_action = 'forget' OR memory.state <> 'retracted') AND
// include memory_stands
       AS is_open
ORDER BY at, id

// proposable_memory
// one row, or none if memory holds nothing of this id: what an agent proposes to change
MATCH (memory:@Memory {scope: $scope, memory_id: $memory_id})
WHERE
// include memory_stands
RETURN memory.text AS text, memory.kind AS kind, coalesce(memory.direct, false) AS is_direct, memory.state AS state,
       coalesce(memory.pinned, false) AS is_pinned

// write_proposal
// one row, or none if memory holds nothing of this id: what it says; an earlier proposal about it gives way
MATCH (memory:@Memory {scope: $scope, memory_id: $memory_id})
SET memory.proposal_id = $id, memory.proposal_action = $action, memory.proposal_text = $text,
    memory.proposal_reason = $reason, memory.proposal_by = $by, memory.proposal_at = $at
RETURN memory.text AS memory_text

// withdraw_proposals
// nothing; these changes are proposed no more
UNWIND $rows AS id
MATCH (e:@Memory {scope: $scope, proposal_id: id})
// include proposal_withdrawal

// proposal_withdrawal @fragment
// the end of what was proposed about a memory e
SET e.proposal_id = null, e.proposal_action = null, e.proposal_text = null, e.proposal_reason = null, e.proposal_by = null,
    e.proposal_at = null
