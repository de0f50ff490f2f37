"""``UserMemory``: the memory of one user, or of a group: remember, recall, forget, correct, list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Unpack

from pydantic import BaseModel

from adk_graph_memory.graph import reviews
from adk_graph_memory.memory import documents, forgetting, histories, ingestion, listings, owner, recall
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.pages import document
from adk_graph_memory.memory.pages.document import MemoryView, Progress
from adk_graph_memory.memory.profile import profiles
from adk_graph_memory.memory.profile.profiles import PROFILE_TOKENS
from adk_graph_memory.memory.recall import RecallOptions
from adk_graph_memory.memory.statements import add_statements, promote_fact
from adk_graph_memory.records.history import EntityHistory, FactHistory, HeldFact, MemoryChange, Proposal
from adk_graph_memory.records.results import (
    DocumentReport,
    IngestReport,
    Profile,
    ProfileForm,
    Receipt,
    Recollection,
    StoredDocument,
    StoredEntity,
    StoredFact,
)
from adk_graph_memory.records.scopes import SharedMemory, check_flags
from adk_graph_memory.records.turns import Statement, Turn
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever
from adk_graph_memory.runtime import telemetry


class UserMemory(UserContext):
    """What one user, or a group, has said, and what follows from it.

    :meth:`.GraphMemory.user` makes one. It holds no data and asks nothing of the database by itself, so you need not
    keep it.

    Example:
        async with GraphMemory() as memory:
            ana = memory.user("home", "ana")
            turn = Turn("t1", author="user", text="My sister Inés moved to Porto.", at=datetime.now(UTC))
            await ana.remember([turn], session_id="call")
            [inés] = [fact async for fact in ana.facts(about="Inés")]
            change = await ana.correct(inés.id, text="My sister Inés moved to Braga.")
            await ana.undo(change.ingest_id)
    """

    # -- remember -----------------------------------------------------------------------------------------------

    async def remember(
        self, turns: Sequence[Turn], *, session_id: str, **options: Unpack[ingestion.RememberOptions]
    ) -> IngestReport:
        """Extract entities and facts from the new turns and store them, each linked to its source words.

        Turns that were ingested before cost nothing and change nothing. A known id with a different text is an edit:
        the turn is read again, and a fact that only the old text supported is deleted. If a step fails, the request
        stays pending in the graph with its turns and the reason, and the next call with these turns retries it.

        Args:
            turns: in the order they were said; a whole session or only its latest turns. Blank turns are left out.
            session_id: the session the turns belong to.
            metadata: stored with the turns and returned with them; merged into existing metadata.
            allowed_topics: labels of the topics to extract in this request; all topics if empty.
            replace_metadata: replace the turns' existing metadata instead of merging.

        Raises:
            errors.InvalidArgument: this session id is reserved, or turns for a shared memory do not name their author.
            errors.ConfigurationError: there is no such topic; nothing is stored.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed; the turns are stored and pending.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; likewise.
            errors.DatabaseError: the graph could not be written.
        """
        check_flags(replace_metadata=options.get("replace_metadata", False))
        return await ingestion.remember_turns(self, turns, session_id=session_id, **options)

    async def enqueue(self, turns: Sequence[Turn], *, session_id: str) -> int:
        """Store the new turns for a later :meth:`.GraphMemory.resume`, in this process or another.

        Returns:
            The number of new turns.

        Raises:
            errors.RedactionFailed, errors.DatabaseError: nothing is stored.
        """
        return await ingestion.enqueue_turns(self, turns, session_id=session_id)

    async def remember_document(
        self,
        source: str | Path,
        *,
        title: str | None = None,
        author: str | None = None,
        at: datetime | None = None,
    ) -> DocumentReport:
        """Remember a document: its passages are found and cited, and facts are extracted from them.

        A passage begins with the document's title, headings and page. The facts are ``reported``, have the origin
        ``document``, and end nothing that a person said. Remembering a new version under the same title reads only what
        has changed, and removes what it no longer has. ``forget_session`` with the report's ``session_id`` forgets the
        document as a whole.

        Args:
            source: the text, as Markdown or plain, or the path of a file in PDF, Markdown or plain text.
            title: by default, the file's name without its suffix.
            author: who wrote it; by default, it speaks for itself, by its title.
            at: since when it says this; now by default.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: the file cannot be read, or there is no text in it.
            errors.InvalidArgument: a text comes without a title, or the document of a shared memory has the author
                ``user``.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed; the passages are stored and pending.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; likewise.
            errors.DatabaseError: the graph could not be written.
        """
        return await documents.remember_document(self, source, title=title, author=author, at=at)

    async def add_statements(self, statements: Sequence[Statement], *, consolidate: bool = False) -> IngestReport:
        """Store statements as facts, word for word; adding one again only updates its metadata.

        Blank statements are left out. Those that the guard drops are left out too and counted in ``dropped``, and so
        are those it holds, except with ``consolidate``, where they wait for review.

        Args:
            statements: what to remember.
            consolidate: read each statement as a turn of its author, with the model if there is one: it can reinforce
                or end known facts, and can be corrected. If no fact is extracted from it, it is kept in its own words.
                A statement that has ended counts again if it is added again later.

        Raises:
            errors.InvalidArgument: a statement with its own id is to be consolidated, or one for a shared memory has
                the author ``user``.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed; statements to consolidate are stored and pending.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; likewise.
            errors.DatabaseError: the graph could not be written.
        """
        return await add_statements(self, statements, consolidate=consolidate)

    async def promote(self, id: str, *, to: SharedMemory, author: str | None = None) -> IngestReport:
        """Copy a fact that holds into a shared memory, with its supporting quotes and nothing else from their turns.

        It is read there as if it had been said there: an equal fact gains its quotes, and a contradicting fact ends or
        stays beside it. Promoting a fact again adds the quotes that have come to support it since. The copy belongs to
        the shared memory: if the user's fact is forgotten, the copy stays until it is forgotten there, as session
        ``:promoted:ID``.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            to: the shared memory.
            author: the user's name in the shared memory (their own calls them ``user``); the user's id by default.

        Raises:
            errors.NotFound: this user has no such fact.
            errors.InvalidArgument: the fact has ended, no remaining quote supports it, or ``to`` is not a shared
                memory.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.DatabaseError: the graph could not be read or written.
        """
        return await promote_fact(self, id, to, author=author)

    # -- recall and list ----------------------------------------------------------------------------------------

    async def recall(self, query: str, **options: Unpack[RecallOptions]) -> list[Recollection]:
        """Return the memories that best fit the question, best first.

        A search takes one embedding and two statements, and no model call. Each shared memory takes two more
        statements, run in parallel, and another embedding if the question names somebody who speaks there. The first
        search of a process, and the first after a write, runs one more statement to learn who speaks.

        Args:
            query: a question or any words; query syntax in it has no effect.
            limit: the maximum number of memories; defaults to the setting ``memory_max_results``.
            token_budget: the maximum number of tokens of text; defaults to the setting of that name.
            min_score: the lowest score (0 to 1) of a memory; defaults to the setting of that name. Without either, only
                a search with ``first_wait`` leaves any out: what hardly ever answers, and after ten memories what is
                not nearly as good as the best.
            now: search as of this moment: anything said later is left out.
            filters: which memories to search.
            explain: fill each memory's ``shares`` with what each signal added to its score.
            language: of the question, as ISO 639-1 names it; defaults to the languages of the user's turns.
            first_wait: for an agent, whose reply must not fail for lack of vectors: seconds the first search waits for
                the embedder before it uses full text alone (``degraded``). Any search whose embedder cannot be used
                does the same; this is logged once.
            embed_timeout: seconds this search waits for the question's vector, loading included; after that, likewise.
            as_of: return what was true then, according to what was on record then, in the wording of that time. The
                facts are re-derived for this.
            shared: the shared memories to search in addition to the user's own; defaults to those that the memory was
                created with. Pass none that the user may not see.

        Raises:
            errors.InvalidArgument: the query is not a string, or an option is out of range.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's, and there is no
                ``first_wait``.
            errors.DatabaseError: the graph could not be read.
        """
        return await recall.recall_memories(self, query, options)

    async def make_retriever(self) -> GraphMemoryRetriever:
        """Make a neo4j-graphrag retriever over this memory; once prepared, this only looks up who speaks."""
        return await recall.make_retriever(self)

    def facts(self, **options: Unpack[listings.FactsOptions]) -> AsyncIterator[StoredFact]:
        """Yield the facts, newest first.

        Args:
            about: only facts about the entity with this name, alias or key.
            past: also facts that have ended, were retracted or are stale.
            limit: the maximum number of facts.
            after: the id of the fact to continue after.
            as_of: list what was true then, according to what was on record then. The facts are re-derived for this.

        Raises:
            errors.NotFound: this user has no fact with the id ``after``.
            errors.InvalidArgument: a name or an id is not a string, the limit is not a number, or ``as_of`` is no AsOf.
        """
        return listings.iterate_facts(self.graph, **options)

    def entities(
        self, *, type: str | None = None, limit: int | None = None, after: str | None = None
    ) -> AsyncIterator[StoredEntity]:
        """Yield the entities that the facts are about, those with the most facts first.

        Args:
            type: only entities of this type: ``person``, ``place`` …
            limit: the maximum number of entities.
            after: the key of the entity to continue after.

        Raises:
            errors.NotFound: this user has no entity with the key ``after``.
            errors.InvalidArgument: the type or the key is not a string, or the limit is not a number.
        """
        return listings.iterate_entities(self.graph, type=type, limit=limit, after=after)

    def documents(self, *, limit: int | None = None, after: str | None = None) -> AsyncIterator[StoredDocument]:
        """Yield the documents that are remembered, by title.

        Args:
            limit: the maximum number of documents; all if None.
            after: only documents behind the one with this session id, which is the last of the page before.

        Raises:
            errors.NotFound: ``after`` is the session of no document of this user.
        """
        return listings.iterate_documents(self.graph, limit=limit, after=after)

    async def profile(self, *, schema: type[BaseModel] | None = None, token_budget: int = PROFILE_TOKENS) -> Profile:
        """Return what is always worth knowing about the user: who they are, home, work, people, preferences and wishes.

        A profile is a view over the facts that hold now: it stores nothing and calls no model. It takes two statements.

        Args:
            schema: a pydantic model that the facts fill in, returned as ``form``: facts are matched to a field by its
                name, its aliases and its description. A field without a matching fact keeps its default.
            token_budget: the maximum number of tokens of the profile's text.

        Raises:
            errors.InvalidArgument: the schema is not a pydantic model, or the budget is not a number.
            errors.DatabaseError: the graph could not be read.
        """
        return await profiles.build_profile(self.graph, schema, token_budget)

    async def fill_forms(
        self, schemas: Sequence[type[BaseModel]], *, token_budget: int = PROFILE_TOKENS
    ) -> tuple[Profile, list[ProfileForm]]:
        """Return the profile and a form for each schema, from the same two statements.

        Raises:
            errors.InvalidArgument: a schema is no pydantic model, or the budget is no number.
            errors.DatabaseError: the graph could not be read.
        """
        return await profiles.fill_forms(self.graph, schemas, token_budget=token_budget)

    async def history(self, id: str) -> FactHistory:
        """Return a fact with every quote that supports it and every decision about it.

        Args:
            id: the fact's id, as in ``Recollection.id`` or ``StoredFact.id``.

        Raises:
            errors.NotFound: this user has no such fact.
        """
        return await histories.find_fact_history(self.graph, id)

    async def entity(self, name: str) -> EntityHistory:
        """Return an entity by name, alias or key, with the source of each name and the facts that hold.

        Raises:
            errors.NotFound: this user has no entity with this name; the error lists the closest names.
            errors.InvalidArgument: several entities have this name.
        """
        return await histories.find_entity_history(self.graph, name)

    async def show(
        self,
        *,
        question: str = "",
        about: str | None = None,
        limit: int | None = 100,
        progress: Progress | None = None,
    ) -> MemoryView:
        """Show the memory as the inspector does, in a document that needs neither server nor network.

        A notebook shows the result; ``save`` writes it to a file. It holds no vectors, and nothing about other users.
        If you choose only a part, it holds those facts, the turns around their words and what they replaced, but no
        profile.

        Args:
            question: first show which memories answer it, and why.
            about: only facts about the person or thing with this name, alias or key.
            limit: the maximum number of facts, the newest first; None for all.
            progress: called with the number of rendered pages and the total.

        Raises:
            errors.ExtraMissing: Jinja2 is not installed (the extra ``inspect``).
            errors.NotFound: this user has no entity with the name ``about``.
            errors.InvalidArgument: the question or the name is not a string, or the limit is not a number.
            errors.DatabaseError: the graph could not be read.
        """
        return await document.show_memory(self, question=question, about=about, limit=limit, progress=progress)

    # -- forget and undo ----------------------------------------------------------------------------------------

    async def forget(self, ids: str | Sequence[str], *, with_turns: bool = False) -> Receipt:
        """Forget memories for good: turns, facts, or statements that were added directly.

        Afterwards, memory is as if the words had never been said: facts without support are deleted, and so are the
        dates, names, merges and endings that rested on them. Adding the same session again brings nothing back; the
        same thing said in a new event is remembered.

        A fact that is forgotten alone is not extracted from its turns again, but the turns still answer questions in
        their own words: the receipt's ``stays`` counts them, and ``with_turns`` forgets them too.

        Args:
            ids: one or several ids, as in ``Recollection.id``, or a statement's own id. Unknown ids are ignored. Two
                users who said the same may have facts with the same id; only this user's is forgotten.
            with_turns: also forget the turns that the facts rest on, and anything else that rests on them alone.

        Raises:
            errors.DatabaseError: the graph could not be written; nothing is forgotten.
        """
        return await forgetting.forget_memories(self, ids, with_turns=with_turns)

    async def preview_forget(self, ids: str | Sequence[str], *, with_turns: bool = False) -> MemoryChange:
        """Return what would change if :meth:`forget` got these ids, and which turns would stay; nothing is written.

        Raises:
            errors.DatabaseError: the graph could not be read.
        """
        return await forgetting.preview_forgetting(self, ids, with_turns=with_turns)

    async def forget_event(self, event_id: str, *, session_id: str) -> Receipt:
        """Forget everything said in one event of a session."""
        return await forgetting.forget_event(self, event_id, session_id=session_id)

    async def forget_session(self, session_id: str) -> Receipt:
        """Forget everything said in a session; the session itself stays."""
        return await forgetting.forget_session(self, session_id)

    async def forget_before(self, moment: datetime) -> Receipt:
        """Forget everything said before a moment, an aware datetime.

        Raises:
            errors.InvalidArgument: the moment has no time zone.
        """
        return await forgetting.forget_before(self, moment)

    async def forget_user(self, *, sessions: bool = False, artifacts: bool = False) -> Receipt:
        """Forget everything remembered about the user, and whatever waits to be read.

        Args:
            sessions: also delete their sessions, events and state. If a session object that still exists in a process
                is added again, it is refused.
            artifacts: also delete their artifacts, with their content in a store.

        Returns:
            Counts of what was deleted and, under ``stays``, of what was not.

        Raises:
            errors.ArtifactStoreUnusable: the content of an artifact could not be deleted; the rest is forgotten.
            errors.DatabaseError: the graph could not be written. Call this again: it continues where it stopped.
        """
        return await forgetting.forget_user(self.graph, sessions=sessions, artifacts=artifacts)

    async def undo(self, ingest_id: str) -> Receipt:
        """Take back everything that one ingest wrote, even if later ones built on it; its turns may be added and read
        again.

        Turns that :meth:`.GraphMemory.reextract` read again return to their earlier reading.

        Args:
            ingest_id: as in ``HistoryEntry.ingest_id``.

        Raises:
            errors.NotFound: this user's memory holds nothing from this ingest.
        """
        return await forgetting.undo_ingest(self, ingest_id)

    async def preview_undo(self, ingest_id: str) -> MemoryChange:
        """Return which facts and names would change if :meth:`undo` took this ingest back; nothing is written.

        Raises:
            errors.NotFound: this user's memory holds nothing from this ingest.
            errors.DatabaseError: the graph could not be read.
        """
        return await forgetting.preview_undoing(self, ingest_id)

    # -- the owner's word: each method returns what it changes, and with ``preview`` writes nothing ----------------

    async def correct(
        self,
        id: str,
        *,
        text: str | None = None,
        valid_from: owner.Change = ...,
        valid_to: owner.Change = ...,
        reason: str = "",
        preview: bool = False,
    ) -> MemoryChange:
        """Replace a wrong fact: it was never true, and your version takes its place, with you as its source.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            text: what is true.
            valid_from, valid_to: since when and until when it is true, as aware datetimes; None if unknown. By default,
                the dates stay.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user has no such fact.
            errors.InvalidArgument: nothing would change, or a date has no time zone.
        """
        return await owner.correct_fact(
            self, id, text=text, valid_from=valid_from, valid_to=valid_to, reason=reason, preview=preview
        )

    async def pin(self, id: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Pin a fact: no extracted fact ends or rewords it, until you unpin, correct or retract it.

        A fact that had ended holds again. The errors are those of :meth:`correct`.
        """
        return await owner.rule_fact(self, "pin", id, reason=reason, preview=preview)

    async def unpin(self, id: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Let people's words end a fact again, including what was said in the meantime."""
        return await owner.rule_fact(self, "unpin", id, reason=reason, preview=preview)

    async def retract(self, id: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Mark a fact as never true. Its words stay, and nothing that was said until now brings it back."""
        return await owner.rule_fact(self, "retract", id, reason=reason, preview=preview)

    async def rollback(self, id: str, revision: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Return a fact to what it was before a change: its wording; it also holds again if it held then.

        Args:
            id: of the fact.
            revision: the change, as in ``HistoryEntry.revision``.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user has no such fact, or the fact has no such revision.
        """
        return await owner.roll_back_fact(self, id, revision, reason=reason, preview=preview)

    async def merge(self, name: str, other: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Merge two entities that are the same; the first keeps its name, and the other's names become aliases.

        Args:
            name, other: a name, an alias or a key of each.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: both names already mean the same entity.
        """
        return await owner.merge_entities(self, name, other, reason=reason, preview=preview)

    async def split(self, alias: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
        """Split off an alias that is somebody else's name: what was said under that name is about somebody else.

        Args:
            alias: the alias, as :meth:`entity` lists it.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: it is an entity's name and not an alias.
        """
        return await owner.split_entity(self, alias, reason=reason, preview=preview)

    # -- what waits for the owner -------------------------------------------------------------------------------

    @telemetry.trace_operation("list_memories")
    async def held_facts(self) -> list[HeldFact]:
        """List the facts that a guard holds back, in the order in which they were read."""
        return await reviews.fetch_held_facts(self.graph)

    async def release(self, id: str) -> HeldFact:
        """Remember a held fact, as if no guard had held it; return the fact.

        Args:
            id: as in ``HeldFact.id``.

        Raises:
            errors.NotFound: this user has no held fact with this id.
        """
        return await owner.release_fact(self, id)

    async def reject(self, id: str) -> HeldFact:
        """Delete a held fact for good; return the fact.

        The session's turns that it was read from stay. A statement is deleted if nothing else was extracted from it.
        The errors are those of :meth:`release`.
        """
        return await owner.reject_fact(self, id)

    async def propose_correction(self, id: str, *, text: str, reason: str = "", by: str = owner.AGENT) -> Proposal:
        """Propose to replace a wrong fact; :meth:`accept_proposal` corrects it.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            text: what is true.
            reason: the reason, for the owner.
            by: who proposes it.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
            errors.InvalidArgument: it is not a fact that can be corrected, or it already says this.
        """
        return await owner.propose_correction(self, id, text=text, reason=reason, by=by)

    async def propose_forgetting(self, id: str, *, reason: str = "", by: str = owner.AGENT) -> Proposal:
        """Propose to forget a memory for good; :meth:`accept_proposal` forgets it.

        The arguments are those of :meth:`propose_correction`.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
        """
        return await owner.propose_forgetting(self, id, reason=reason, by=by)

    @telemetry.trace_operation("list_memories")
    async def proposals(self) -> list[Proposal]:
        """List what agents propose to the owner of this memory, oldest first; each memory has at most one."""
        return await reviews.fetch_proposals(self.graph)

    async def accept_proposal(self, id: str, *, preview: bool = False) -> MemoryChange:
        """Do what an agent proposed, in the owner's name; call this only when the owner says so.

        Args:
            id: as in ``Proposal.id``. If a proposal was replaced after the owner saw it, the new one has another id.
            preview: only return what would change.

        Returns:
            What changes. :meth:`undo` takes a correction back; forgetting cannot be undone, so its ``ingest_id`` is
            empty.

        Raises:
            errors.NotFound: this user has no proposal with this id.
        """
        return await owner.accept_proposal(self, id, preview=preview)

    async def decline_proposal(self, id: str) -> Proposal:
        """Drop a proposal and leave everything as it is; return the proposal.

        The errors are those of :meth:`accept_proposal`.
        """
        return await owner.decline_proposal(self, id)
