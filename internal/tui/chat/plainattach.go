package chat

import (
	"fmt"
	"time"

	"github.com/parley-server/parley"
)

// attachFile attaches the file at a path to the next message, or says what is attached.
func (p *plain) attachFile(path string) error {
	switch {
	case p.conv == nil && p.draft == nil:
		p.say("Choose a session first: /sessions, or /new APP.")
		return nil
	case path == "" && len(p.files) == 0:
		p.say("Nothing is attached. /attach PATH attaches a file.")
		return nil
	case path == "":
		p.say("Attached: %s. /detach takes the last one off.", filesText(p.files))
		return nil
	}
	var files []*file
	if err := p.wait(func() (err error) { files, err = find(pathsIn(path, true, p.o.Env)); return err }); err != nil {
		return err
	}
	if len(p.files)+len(files) > parley.MaxAttachments {
		return parley.Errorf(parley.CodeTooLarge, "a message has at most %d files", parley.MaxAttachments)
	}
	p.files = append(p.files, files...)
	p.say("Attached: %s. It goes with your next message.", filesText(files))
	return nil
}

// sayEvery is how often it is said how far an upload is.
const sayEvery = 5 * time.Second

// give uploads the files that go with a message, and delivers it.
func (p *plain) give(id parley.SessionID, message parley.Send) (t parley.TurnInfo, err error) {
	var total int64
	for _, f := range p.files {
		total += f.size
	}
	said := time.Now()
	told := func(sent int64) {
		if time.Since(said) < sayEvery || sent >= total {
			return
		}
		said = time.Now()
		select {
		case p.notes <- fmt.Sprintf("Uploading: %d percent.", sent*100/total):
		default:
		}
	}
	if message.Attachments, err = upload(p.ctx, p.c, id, p.files, told); err != nil {
		return t, err
	}
	return p.c.Deliver(p.ctx, id, message)
}

// given says what the model cannot read of the files that went with a message.
func (p *plain) given() {
	if text := unread(p.files); text != "" {
		p.say("%s", text)
	}
	p.files = nil
}
