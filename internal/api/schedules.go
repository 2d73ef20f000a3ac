package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
)

// ScheduleParam: as SessionParam.
type ScheduleParam struct {
	ID parley.ScheduleID `path:"id" maxLength:"200" doc:"The schedule."`
}

type schedulesInput struct {
	App string `query:"app" maxLength:"64" doc:"Only schedules of this app."`
}

type addScheduleInput struct {
	KeyParam
	Body parley.ScheduleSpec
}

type updateScheduleInput struct {
	ScheduleParam
	Body parley.UpdateSchedule
}

type runScheduleInput struct {
	ScheduleParam
	KeyParam
}

type scheduleList struct {
	Schedules []parley.Schedule `json:"schedules" nullable:"false"`
}

type scheduleRunList struct {
	Runs []parley.ScheduleRun `json:"runs" nullable:"false"`
}

func (s *Server) scheduleRoutes() {
	d := s.o.Schedules
	if d == nil {
		return
	}
	tags := []string{"schedules"}
	route(s, huma.Operation{
		OperationID: "list-schedules", Method: http.MethodGet, Path: "/v1/schedules", Tags: tags, Summary: "List your schedules",
		Description: "Those that you made, and those of apps whose turns belong to you. Each has its next run and what became of the last one.",
	}, func(ctx context.Context, p parley.Principal, in *schedulesInput) (*body[scheduleList], error) {
		list, err := d.List(ctx, p, in.App)
		if err == nil && len(list) == 0 && in.App != "" {
			err = s.knownApp(ctx, p, in.App)
		}
		return ok(scheduleList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "add-schedule", Method: http.MethodPost, Path: "/v1/schedules", Tags: tags, DefaultStatus: http.StatusCreated, Summary: "Make a schedule",
		Description: "At each time of its cron expression a turn begins, in a new session or always in the same one, with the message. " +
			"Nobody is there then: what the turn would ask is denied, unless asks is owner. A run begins once, also over a crash of the server. " +
			"Times that do not exist, because the clock is set forward, count as the moment when that happens; of times that exist twice the first counts, except for expressions that are for every hour.",
	}, func(ctx context.Context, p parley.Principal, in *addScheduleInput) (*body[parley.Schedule], error) {
		return ok(d.Add(ctx, p, in.Body, string(in.Key)))
	})
	route(s, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/schedules/{id}", Tags: tags, Summary: "Read a schedule",
		Description: "With its next run and what became of the last one.",
	}, func(ctx context.Context, p parley.Principal, in *ScheduleParam) (*body[parley.Schedule], error) {
		return ok(d.Schedule(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "update-schedule", Method: http.MethodPatch, Path: "/v1/schedules/{id}", Tags: tags, Summary: "Change, pause or unpause a schedule",
		Description: "What is left out stays. A schedule that an app's file defines can only be paused and unpaused. A run that is beginning at that moment is as the schedule was.",
	}, func(ctx context.Context, p parley.Principal, in *updateScheduleInput) (*body[parley.Schedule], error) {
		return ok(d.Update(ctx, p, in.ID, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "delete-schedule", Method: http.MethodDelete, Path: "/v1/schedules/{id}", Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Delete a schedule",
		Description: "The sessions and turns that it began stay.",
	}, func(ctx context.Context, p parley.Principal, in *ScheduleParam) (*struct{}, error) {
		return nil, d.Remove(ctx, p, in.ID)
	})
	route(s, huma.Operation{
		OperationID: "run-schedule", Method: http.MethodPost, Path: "/v1/schedules/{id}/run", Tags: tags, DefaultStatus: http.StatusAccepted, Summary: "Run a schedule now",
		Description: "Also one that is paused. Its next time stays. While the turn of the run before goes on it is refused (409), unless overlap is cancel.",
	}, func(ctx context.Context, p parley.Principal, in *runScheduleInput) (*body[parley.ScheduleRun], error) {
		return ok(d.RunNow(ctx, p, in.ID, string(in.Key)))
	})
	route(s, huma.Operation{
		OperationID: "list-schedule-runs", Method: http.MethodGet, Path: "/v1/schedules/{id}/runs", Tags: tags, Summary: "List the last runs of a schedule",
		Description: "The last 40, the newest first, each with its turn and how that stands now; also those that did not take place, and why.",
	}, func(ctx context.Context, p parley.Principal, in *ScheduleParam) (*body[scheduleRunList], error) {
		list, err := d.Runs(ctx, p, in.ID)
		return ok(scheduleRunList{some(list)}, err)
	})
}
