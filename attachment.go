package parley

const (
	// MaxAttachments is how many attachments one message may have.
	MaxAttachments = 10
	// MaxAttachment is the largest file that may be attached, in bytes.
	MaxAttachment = 20 << 20
	// MaxSessionAttachments is how many bytes the files that a session was given may have.
	MaxSessionAttachments = 200 << 20
	// MaxAttachmentText is how much of an attachment's text a message has, in bytes. The rest can be read on.
	MaxAttachmentText = 32 << 10
)

// Attachment is a file that a user gave to a session. A message has it when it names its ID in
// [Send.Attachments].
type Attachment struct {
	ID        ArtifactID `json:"id"`
	Name      string     `json:"name"`
	MediaType string     `json:"media_type" doc:"By its content, not by its name."`
	Size      int64      `json:"size"`
	SHA256    Digest     `json:"sha256,omitempty"`
	Image     bool       `json:"image,omitempty" doc:"It is an image, which models that see are shown."`
	Text      int64      `json:"text,omitempty" doc:"Bytes of text that were taken from it."`
	Cut       bool       `json:"cut,omitempty" doc:"It has more text than was taken."`
	Unread    string     `json:"unread,omitempty" doc:"Why no text was taken, in words. The model is told so, too."`
}
