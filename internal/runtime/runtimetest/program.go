package runtimetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// line is one line between a [CLI] and its [Program]. The program says
//
//	begin       it wants to begin a turn of its own about Text; ID is the turn's key
//	model       it wants to call its model, for Agent
//	assistant   what the model said: Text, and the tools to Use
//	permission  it wants to run the tool call ID
//	result      Text is what came of the tool call ID, or why it failed
//	question    the tool call ID asks a human
//	listen      it waits until it is spoken to
//	end         the turn has ended with Text; State is its transcript
//
// and gets
//
//	user        the turn ID begins, or goes on: Text is the message, Done what has come of
//	            its tool calls so far, Asked the others that its model has asked for
//	go          the model may be called; Heard is what the user has said in between
//	permission  Allowed, or why not
//	answer      a human's answer
//	heard       it was spoken to
//	stop        end the turn once what has begun is over
type line struct {
	Type    string            `json:"type"`
	ID      string            `json:"id,omitempty"`
	Agent   string            `json:"agent,omitempty"` // the Task call inside which this happens
	Text    string            `json:"text,omitempty"`
	Use     []use             `json:"use,omitempty"`
	Failed  bool              `json:"failed,omitempty"`
	Allowed bool              `json:"allowed,omitempty"`
	Heard   []string          `json:"heard,omitempty"`
	Done    map[string]string `json:"done,omitempty"`
	Asked   []string          `json:"asked,omitempty"`
	State   string            `json:"state,omitempty"`
}

type use struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Effects is the outside world of a [Program]. It outlives the program.
type Effects struct {
	// Add does something that must not be done twice. If it returns an error, the program ends.
	Add func(what string) error
	// Die reports whether the program must die now.
	Die func() bool
}

// Program stands in for a program that contains an agent. It calls a model and runs its own
// tools, and first asks its parent for permission in JSON lines. A message is a list of steps,
// separated by semicolons:
//
//	look X, add X     a call of a tool; several with "&" are made at once
//	ask X             asks a human
//	task look X       has another agent make the call
//	hear              waits until the user says something
//	die               ends the program, as a crash does
//	later X; Y        begins a turn with the remaining steps, when this one has ended
//
// It ends at the end of in.
func Program(in io.Reader, out io.Writer, world Effects) error {
	p := &program{out: json.NewEncoder(out), world: world, waits: map[string]chan line{}, stop: make(chan struct{}), dead: make(chan struct{}), over: make(chan error, 1)}
	defer close(p.dead)
	go func() { p.end(p.read(json.NewDecoder(bufio.NewReader(in)))) }()
	return <-p.over
}

// end ends the program. Only the first call counts.
func (p *program) end(err error) {
	select {
	case p.over <- err:
	default:
	}
}

type program struct {
	world Effects

	mu    sync.Mutex // held while a line is written, and guards the fields below
	out   *json.Encoder
	waits map[string]chan line
	state string
	heard []string
	turns int
	stop  chan struct{} // closed when the turn is to stop
	over  chan error
	dead  chan struct{} // closed when the program has ended
}

func (p *program) read(from *json.Decoder) error {
	for {
		var l line
		if err := from.Decode(&l); err != nil {
			return err
		}
		p.mu.Lock()
		switch l.Type {
		case "user":
			p.stop, p.heard = make(chan struct{}), nil
			stop := p.stop
			p.mu.Unlock()
			go p.turn(l, stop)
			continue
		case "stop":
			close(p.stop)
		default:
			if c := p.waits[l.Type+l.ID]; c != nil {
				delete(p.waits, l.Type+l.ID)
				c <- l
			}
		}
		p.mu.Unlock()
	}
}

func (p *program) say(l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(l)
}

// write writes a line. Errors are ignored: the parent may be gone.
func (p *program) write(l line) { _ = p.out.Encode(l) }

// asks writes l and waits for the answer. ok is false when the turn must stop.
func (p *program) asks(l line, answer string, stop <-chan struct{}) (line, bool) {
	c := make(chan line, 1)
	p.mu.Lock()
	p.waits[answer+l.ID] = c
	p.write(l)
	p.mu.Unlock()
	select {
	case got := <-c:
		return got, true
	case <-stop:
	case <-p.dead:
	}
	return line{}, false
}

// turn carries out the steps of a message.
func (p *program) turn(user line, stop <-chan struct{}) {
	message, later, _ := strings.Cut(user.Text, "later ")
	if user.State != "" {
		p.mu.Lock()
		p.state = user.State
		p.mu.Unlock()
	}
	var said []string
	stopped := false
	for i, step := range strings.Split(message, ";") {
		step = strings.TrimSpace(step)
		id := fmt.Sprintf("%s.%d", user.ID, i)
		switch {
		case stopped || step == "":
			continue
		case step == "die":
			if p.world.Die() {
				p.end(errors.New("died"))
				return
			}
			continue
		case step == "hear":
			_, ok := p.asks(line{Type: "listen", ID: id}, "heard", stop)
			stopped = !ok
			continue
		}
		results, ok := p.step(user, "", id, strings.Split(step, "&"), stop)
		if results == nil && !ok {
			return // dead
		}
		said, stopped = append(said, results...), !ok
	}
	if !stopped {
		if _, ok := p.asks(line{Type: "model", ID: user.ID + ".end"}, "go", stop); ok {
			p.say(line{Type: "assistant", ID: user.ID + ".end", Text: "done: " + strings.Join(said, ", ")})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	said = append(said, p.heard...)
	p.state += user.Text + "\n"
	p.write(line{Type: "end", ID: user.ID, Text: "done: " + strings.Join(said, ", "), State: p.state})
	if later != "" && !stopped {
		p.turns++
		p.write(line{Type: "begin", ID: fmt.Sprintf("%s.own%d", user.ID, p.turns), Text: later})
	}
}

// step has the model ask for calls, and makes them concurrently. ok is false if the program died.
func (p *program) step(user line, agent, id string, calls []string, stop <-chan struct{}) (results []string, ok bool) {
	known := false
	var uses []use
	for j, call := range calls {
		name, arg, _ := strings.Cut(strings.TrimSpace(call), " ")
		input, _ := json.Marshal(map[string]string{"what": arg})
		u := use{ID: fmt.Sprintf("%s.%d", id, j), Name: name, Input: input}
		uses = append(uses, u)
		_, done := user.Done[u.ID]
		for _, asked := range user.Asked {
			done = done || asked == u.ID
		}
		known = known || done
	}
	if !known {
		got, ok := p.asks(line{Type: "model", ID: id, Agent: agent}, "go", stop)
		if !ok {
			return []string{}, false
		}
		p.mu.Lock()
		p.heard = append(p.heard, got.Heard...)
		p.write(line{Type: "assistant", ID: id, Agent: agent, Use: uses})
		p.mu.Unlock()
	}
	results = make([]string, len(uses))
	alive := make([]bool, len(uses))
	var all sync.WaitGroup
	for j, u := range uses {
		all.Go(func() { results[j], alive[j] = p.call(user, agent, u, stop) })
	}
	all.Wait()
	for _, a := range alive {
		if !a {
			return nil, false
		}
	}
	select {
	case <-stop:
		return results, false
	default:
		return results, true
	}
}

// call makes one call, unless its result is already known. alive is false if the program died
// in it.
func (p *program) call(user line, agent string, u use, stop <-chan struct{}) (text string, alive bool) {
	if text, ok := user.Done[u.ID]; ok {
		return text, true
	}
	leave, ok := p.asks(line{Type: "permission", ID: u.ID, Agent: agent}, "permission", stop)
	if !ok || !leave.Allowed {
		return "not " + u.Name + ": " + leave.Text, true
	}
	var in struct{ What string }
	_ = json.Unmarshal(u.Input, &in) // step made this JSON, so it is valid
	failed := false
	switch u.Name {
	case "look":
		text = "saw " + in.What
	case "add":
		if err := p.world.Add(in.What); err != nil {
			p.end(err)
			return "", false
		}
		text = "added " + in.What
	case "ask":
		got, ok := p.asks(line{Type: "question", ID: u.ID, Agent: agent, Text: in.What}, "answer", stop)
		text, failed = "heard "+got.Text, !ok
	case "task":
		got, ok := p.step(user, u.ID, u.ID, []string{in.What}, stop)
		if got == nil && !ok {
			return "", false
		}
		text, failed = "task: "+strings.Join(got, ", "), !ok
	}
	p.say(line{Type: "result", ID: u.ID, Agent: agent, Text: text, Failed: failed})
	return text, true
}
