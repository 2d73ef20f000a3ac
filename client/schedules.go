package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// Schedules lists the user's schedules. Empty app: of all apps.
func (c *Client) Schedules(ctx context.Context, app string) ([]parley.Schedule, error) {
	query := url.Values{}
	if app != "" {
		query.Set("app", app)
	}
	list, err := get[struct {
		Schedules []parley.Schedule `json:"schedules"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/schedules", query: query})
	return list.Schedules, err
}

// AddSchedule makes a schedule. It is made once, also when the answer is lost.
func (c *Client) AddSchedule(ctx context.Context, s parley.ScheduleSpec) (parley.Schedule, error) {
	key := ""
	return once(ctx, c, &key, func() (parley.Schedule, error) {
		a := call{method: http.MethodPost, path: "/v1/schedules", body: s}
		return get[parley.Schedule](ctx, c, a.set("Idempotency-Key", key))
	})
}

// Schedule reads a schedule.
func (c *Client) Schedule(ctx context.Context, id parley.ScheduleID) (parley.Schedule, error) {
	return get[parley.Schedule](ctx, c, call{method: http.MethodGet, path: p("/v1/schedules/%s", id)})
}

// UpdateSchedule changes, pauses or unpauses a schedule.
func (c *Client) UpdateSchedule(ctx context.Context, id parley.ScheduleID, u parley.UpdateSchedule) (parley.Schedule, error) {
	return get[parley.Schedule](ctx, c, call{method: http.MethodPatch, path: p("/v1/schedules/%s", id), body: u})
}

// DeleteSchedule deletes a schedule. What it began stays.
func (c *Client) DeleteSchedule(ctx context.Context, id parley.ScheduleID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/schedules/%s", id)})
	return err
}

// RunSchedule runs a schedule now. The same key returns the same run; an empty one is made, so
// that the run begins once, also when the answer is lost.
func (c *Client) RunSchedule(ctx context.Context, id parley.ScheduleID, key string) (parley.ScheduleRun, error) {
	return once(ctx, c, &key, func() (parley.ScheduleRun, error) {
		a := call{method: http.MethodPost, path: p("/v1/schedules/%s/run", id)}
		return get[parley.ScheduleRun](ctx, c, a.set("Idempotency-Key", key))
	})
}

// ScheduleRuns lists the last runs of a schedule, the newest first.
func (c *Client) ScheduleRuns(ctx context.Context, id parley.ScheduleID) ([]parley.ScheduleRun, error) {
	list, err := get[struct {
		Runs []parley.ScheduleRun `json:"runs"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/schedules/%s/runs", id)})
	return list.Runs, err
}
