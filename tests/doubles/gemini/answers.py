"""A rule's reply as the chunks of a response."""

import hashlib
import uuid
from typing import Any

from tests.doubles.gemini.rules import Reply
from tests.doubles.gemini.wire import JSON, generation, new_signature, text_of, tokens

__all__ = ["chunks_of", "embedding_of", "whole"]

_EMPTY_FINISHES = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
_RATING = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}


def chunks_of(model: str, body: JSON, reply: Reply) -> list[JSON]:
    """Return the response in chunks: one for each text of a list, else one in all."""
    base = {"modelVersion": model, "responseId": uuid.uuid4().hex[:22]}
    parts = _parts(model, reply)
    usage = _usage(model, body, reply, parts)
    if reply.block or reply.no_candidate:
        early = {key: usage[key] for key in ("promptTokenCount", "totalTokenCount")}
        feedback = {"promptFeedback": {"blockReason": reply.block}} if reply.block else {}
        return [{**base, **feedback, "usageMetadata": early}]
    groups = [[part] for part in parts] if isinstance(reply.text, list) and not reply.calls else [parts]
    candidates: list[JSON] = [{"content": _content(group), "index": 0} for group in groups or [[]]]
    candidates[-1] |= _end(reply)
    if reply.no_content or reply.safety:
        del candidates[-1]["content"]
    early = {key: usage[key] for key in ("promptTokenCount", "totalTokenCount")}
    counts = [early] * (len(candidates) - 1) + [usage]
    return [
        {**base, "candidates": [candidate], "usageMetadata": count}
        for candidate, count in zip(candidates, counts, strict=True)
    ]


def whole(chunks: list[JSON]) -> JSON:
    """Return the response that is not streamed: the chunks' texts put together."""
    if len(chunks) == 1:
        return chunks[0]
    parts: list[JSON] = []
    for part in (part for chunk in chunks for part in chunk["candidates"][0]["content"].get("parts", [])):
        if parts and set(parts[-1]) == set(part) == {"text"}:
            parts[-1] = {"text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    last = chunks[-1]
    return {**last, "candidates": [{**last["candidates"][0], "content": _content(parts)}]}


def embedding_of(request: JSON) -> JSON:
    """A vector that depends on the text alone."""
    size = int(request.get("outputDimensionality") or 768)
    digest = hashlib.shake_256(text_of(request["content"]).encode()).digest(size)
    return {"values": [round((byte - 128) / 128, 4) for byte in digest]}


def _parts(model: str, reply: Reply) -> list[JSON]:
    if reply.empty or reply.finish in _EMPTY_FINISHES:
        return []
    parts: list[JSON] = [{"text": reply.thought, "thought": True}] if reply.thought else []
    parts += [{"text": text} for text in reply.texts]
    signs = generation(model) >= (3, 0)
    for index, call in enumerate(reply.calls):
        part: JSON = {"functionCall": {"name": call.name, "args": call.args}}
        if signs:
            part["functionCall"]["id"] = call.id or uuid.uuid4().hex[:8]
        if signs and index == 0:  # of parallel calls, the first alone is signed
            part["thoughtSignature"] = new_signature(model)
        parts.append(part)
    if reply.signature_apart:
        parts.append({"text": "", "thoughtSignature": new_signature(model)})
    return parts


def _content(parts: list[JSON]) -> JSON:
    return {"role": "model", "parts": parts} if parts else {"role": "model"}


def _end(reply: Reply) -> JSON:
    end: JSON = {} if reply.no_finish else {"finishReason": "SAFETY" if reply.safety else reply.finish}
    if reply.safety:
        end["safetyRatings"] = [_RATING]
    if reply.message:
        end["finishMessage"] = reply.message
    return end


def _usage(model: str, body: JSON, reply: Reply, parts: list[JSON]) -> JSON:
    sent: list[Any] = [body.get("contents"), body.get("systemInstruction") or "", body.get("tools") or ""]
    prompt = sum(tokens(one) for one in sent)
    shown = [part for part in parts if not part.get("thought")]
    output = sum(tokens(part.get("text") or part.get("functionCall") or "") for part in shown)
    usage: JSON = {
        "promptTokenCount": prompt,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
        "totalTokenCount": prompt,
    }
    if output:
        usage["candidatesTokenCount"] = output
    if generation(model) >= (3, 0) or reply.thought:
        usage["thoughtsTokenCount"] = tokens(reply.thought or "thinking it over")
    usage["totalTokenCount"] += output + usage.get("thoughtsTokenCount", 0)
    return usage
