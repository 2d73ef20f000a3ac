package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
)

// A file that a user attaches becomes artifacts of its session, in one append without a turn: the file
// itself, or for an image what models take, and its text, or why there is none. The name of the second is the
// id of the first with one of these ends. So the two stay together in forks and through imports, which
// give ids new values wherever they stand.
const (
	endText   = ".text"
	endPart   = ".part" // the text is not all of it
	endUnread = ".unread"
)

// Attach gives a file to a session, for its messages to name. A file that the session has been given already
// is returned as it is. Nothing is stored unless everything is.
func (e *Engine) Attach(ctx context.Context, p parley.Principal, id parley.SessionID, name string, body []byte) (parley.Attachment, error) {
	info, err := e.Session(ctx, p, id)
	if err != nil {
		return parley.Attachment{}, err
	}
	if e.o.Documents == nil {
		return parley.Attachment{}, parley.Errorf(parley.CodeUnavailable, "this server reads no files")
	}
	owner := parley.Principal{User: info.User, Org: info.Org}
	name = fileName(name)
	switch {
	case info.Status != parley.Active:
		return parley.Attachment{}, parley.Errorf(parley.CodeConflict, "the session has %s", info.Status).WithHint("start a new session, or fork this one")
	case len(body) > parley.MaxAttachment:
		return parley.Attachment{}, tooLong("the file", parley.MaxAttachment, "bytes")
	case len(body) == 0:
		return parley.Attachment{}, parley.Errorf(parley.CodeInvalid, "the file is empty").WithField("body")
	}
	doc, err := e.o.Documents.Read(ctx, owner, name, body)
	switch {
	case errors.Is(err, fair.ErrFull):
		return parley.Attachment{}, parley.Errorf(parley.CodeRateLimited, "many files of yours are being read already").WithHint("attach them one after the other").WithRetry(time.Second)
	case err != nil:
		return parley.Attachment{}, err
	}
	if doc.Image != nil {
		body = doc.Image
	}
	// What is stored lacks secrets, so the file is known by what is stored of it.
	stores, _ := e.o.Log.RedactFileOf(id, body)
	sum := sha256.Sum256(stores)
	digest := parley.Digest(hex.EncodeToString(sum[:]))
	// The session's lock is held from the look at what it has to the append, so that two uploads of one
	// file make one.
	free, err := e.keep(ctx, owner, 0, int64(len(body)+len(doc.Text)))
	if err != nil {
		return parley.Attachment{}, err
	}
	defer free()
	s, err := e.acquire(ctx, p, id)
	if err != nil {
		return parley.Attachment{}, err
	}
	defer s.release()
	if s.view.Status != parley.Active {
		return parley.Attachment{}, parley.Errorf(parley.CodeConflict, "the session has %s", s.view.Status).WithHint("start a new session, or fork this one")
	}
	list, err := e.o.Store.Artifacts(ctx, p, id)
	if err != nil {
		return parley.Attachment{}, err
	}
	total := int64(len(body))
	for _, a := range list {
		if a.Turn != "" {
			continue
		}
		if total += a.Size; a.SHA256 == digest && a.Name == name {
			return attachmentOf(a, list), nil
		}
	}
	if total > parley.MaxSessionAttachments {
		return parley.Attachment{}, tooLong("what the session was given", parley.MaxSessionAttachments, "bytes").WithHint("start a new session for further files")
	}
	first, err := e.keepFile(ctx, owner, id, seam.File{Name: name, MediaType: doc.MediaType, Body: body})
	if err != nil {
		return parley.Attachment{}, err
	}
	refs := []parley.ArtifactRef{*first}
	if doc.Image == nil {
		end, text := endText, doc.Text
		switch {
		case doc.Why != "":
			end, text = endUnread, doc.Why
		case doc.Cut:
			end = endPart
		}
		second, err := e.keepFile(ctx, owner, id, seam.File{Name: string(first.ID) + end, MediaType: "text/plain; charset=utf-8", Body: []byte(text)})
		if err != nil {
			return parley.Attachment{}, err
		}
		refs = append(refs, *second)
	}
	if err := s.commit(ctx, stored("", "", refs)...); err != nil {
		return parley.Attachment{}, err
	}
	all := make([]seam.Artifact, len(refs))
	for i, ref := range refs {
		all[i] = seam.Artifact{ArtifactRef: ref}
	}
	out := attachmentOf(all[0], all)
	if out.Unread != "" {
		out.Unread = doc.Why
	}
	return out, nil
}

// fileName is the last element of a name, on one line.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	name = strings.TrimSpace(name[strings.LastIndexAny(name, `/\`)+1:])
	if name == "" || name == "." || name == ".." {
		return "file"
	}
	return parley.Cut(name, 120)
}

// textOf finds the artifact with the text of an attached file. ok is false for what no user attached, and for
// images.
func textOf(list []seam.Artifact, id parley.ArtifactID) (a seam.Artifact, end string, ok bool) {
	for _, end := range []string{endText, endPart, endUnread} {
		if i := slices.IndexFunc(list, func(a seam.Artifact) bool { return a.Name == string(id)+end }); i >= 0 {
			return list[i], end, true
		}
	}
	return a, "", false
}

func attachmentOf(a seam.Artifact, list []seam.Artifact) parley.Attachment {
	out := parley.Attachment{ID: a.ID, Name: a.Name, MediaType: a.MediaType, Size: a.Size, SHA256: a.SHA256, Image: strings.HasPrefix(a.MediaType, "image/")}
	text, end, ok := textOf(list, a.ID)
	switch {
	case !ok:
	case end == endUnread:
		out.Unread = "Nothing of it could be read."
		out.Image = false
	default:
		out.Text, out.Cut, out.Image = text.Size, end == endPart, false
	}
	return out
}

// given is the part of a message for a file that its user attached; ok is false for other artifacts. A
// model that sees no images is told that there is one.
func (s *session) given(ctx context.Context, p parley.Principal, a seam.Artifact, c parley.Send) (part parley.Part, ok bool, err error) {
	if a.Turn != "" {
		return part, false, nil
	}
	list, err := s.e.o.Store.Artifacts(ctx, p, s.id)
	if err != nil {
		return part, false, err
	}
	part = parley.Part{Type: parley.PartAttachment, Artifact: a.ID, Name: a.Name, MediaType: a.MediaType, Size: a.Size}
	text, end, ok := textOf(list, a.ID)
	if !ok {
		if !strings.HasPrefix(a.MediaType, "image/") || s.tools == nil {
			return part, false, nil
		}
		if takes := s.takes(c); !takes.images {
			part.Text, part.IsError = fmt.Sprintf("It is an image, and the model %s sees none.", takes.model), true
			return part, true, nil
		}
		return part, false, nil
	}
	body, err := s.e.bytesOf(ctx, p, text)
	if err != nil {
		return part, false, err
	}
	part.Whole, part.Text, part.IsError, part.Cut = text.ID, string(body), end == endUnread, end == endPart
	if len(part.Text) > parley.MaxAttachmentText {
		part.Text, part.Cut = beginning(part.Text, parley.MaxAttachmentText), true
	}
	return part, true, nil
}

// attachedText is the text of a file that a user attached to the session.
func (h *host) attachedText(ctx context.Context, id parley.ArtifactID) (string, error) {
	list, err := h.s.e.o.Store.Artifacts(ctx, h.r.owner, h.s.id)
	if err != nil {
		return "", err
	}
	text, end, ok := textOf(list, id)
	switch {
	case !ok:
		return "", parley.Errorf(parley.CodeNotFound, "there is no attachment %q with a text in this session", parley.Cut(string(id), 80))
	case end == endUnread:
		return "", parley.Errorf(parley.CodeInvalid, "the attachment %s could not be read", id)
	}
	f, err := h.Open(ctx, text.ID)
	return string(f.Body), err
}

// beginning is the beginning of a text in bytes, at a line if one ends late enough.
func beginning(text string, most int) string {
	text = strings.ToValidUTF8(text[:most], "")
	if i := strings.LastIndexByte(text, '\n'); i > most/2 {
		text = text[:i+1]
	}
	return text
}
