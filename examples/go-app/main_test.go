package main

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// TestBook: a room is booked once, for the user who asked.
func TestBook(t *testing.T) {
	s := servertest.Start(t, server.App(files), server.Tools("rooms", new(rooms).tools()))
	chat := s.Session("rooms")
	chat.Send("Book oak on Friday")
	if turn := chat.Answer(parley.ChoiceAllow); turn.Response == nil || turn.Response.Message != `{"room":"oak","day":"Friday","user":"local"}` {
		t.Errorf("%+v", turn)
	}
	if turn := chat.Send("What is free on Friday?"); turn.Response == nil || turn.Response.Message != `{"day":"Friday","rooms":["elm"]}` {
		t.Errorf("%+v", turn)
	}
	other := s.Session("rooms")
	other.Send("Book oak on Friday")
	other.Answer(parley.ChoiceAllow)
	if got := other.Results(); len(got) != 1 || got[0].Outcome != parley.OutcomeError {
		t.Errorf("it was booked twice: %+v", got)
	}
}

// TestInput: what the schema excludes does not reach the function.
func TestInput(t *testing.T) {
	chat := servertest.Start(t, server.App(files), server.Tools("rooms", new(rooms).tools())).Session("rooms")
	chat.Send("Book ash on Friday")
	if got := chat.Results(); len(got) != 1 || got[0].Outcome != parley.OutcomeError {
		t.Errorf("%+v", got)
	}
}
