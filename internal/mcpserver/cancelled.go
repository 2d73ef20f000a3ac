package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// codeCancelled marks the answer to a request that was cancelled. The SDK writes
// an answer to every request; the protocol wants none to these, so it is dropped
// on its way out. The number is the one that the language server protocol has for it.
const codeCancelled = -32800

// marks identify the answer to a cancelled request: our code, and the SDK's text if the
// request was cancelled before it reached a handler.
var marks = [][]byte{[]byte("-32800"), []byte(context.Canceled.Error())}

// answersCancelled reports whether b, one event of a stream, is the answer to a
// cancelled request.
func answersCancelled(b []byte) bool {
	if !bytes.Contains(b, marks[0]) && !bytes.Contains(b, marks[1]) {
		return false
	}
	_, data, ok := bytes.Cut(b, []byte("data: "))
	if !ok {
		return false
	}
	var m struct {
		Method string `json:"method"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	return json.Unmarshal(data, &m) == nil && m.Method == "" && m.Error != nil &&
		(m.Error.Code == codeCancelled || m.Error.Code == 0 && m.Error.Message == context.Canceled.Error())
}

// nothingLeft answers a host that wants to resume the stream of a request that it
// cancelled. Hosts ask repeatedly for the rest of a stream without an answer; 405 is the
// protocol's status for a stream that does not exist.
func (w *response) nothingLeft() {
	w.begin()
	w.Header().Del("Content-Type")
	w.Header().Set("Allow", "POST, DELETE")
	w.ResponseWriter.WriteHeader(http.StatusMethodNotAllowed)
}
