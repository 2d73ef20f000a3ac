package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
)

// DeviceParam: as SessionParam.
type DeviceParam struct {
	ID parley.DeviceID `path:"id" maxLength:"64" doc:"The device."`
}

// DeliveryParam: as SessionParam.
type DeliveryParam struct {
	ID parley.DeliveryID `path:"id" maxLength:"200" doc:"The delivery."`
}

type addDeviceInput struct{ Body parley.AddDevice }

type updateDeviceInput struct {
	DeviceParam
	Body parley.UpdateDevice
}

type deviceList struct {
	Devices []parley.Device `json:"devices" nullable:"false"`
}

type deliveriesInput struct {
	Dead bool `query:"dead" default:"false" doc:"Those that were given up, in place of those that are still tried."`
}

type deliveryList struct {
	Deliveries []parley.Delivery `json:"deliveries" nullable:"false"`
}

type notifyInput struct{ Body parley.Notify }

func (s *Server) deviceRoutes() {
	d := s.o.Devices
	if d == nil {
		return
	}
	tags := []string{"devices"}
	route(s, huma.Operation{
		OperationID: "get-push", Method: http.MethodGet, Path: "/v1/push", Tags: tags, Summary: "What devices can be registered",
		Description: "With the key that browsers subscribe with.",
	}, func(ctx context.Context, _ parley.Principal, _ *struct{}) (*body[parley.PushInfo], error) {
		return ok(d.Info(ctx))
	})
	route(s, huma.Operation{
		OperationID: "get-notifications", Method: http.MethodGet, Path: "/v1/notifications", Tags: tags, Summary: "What you want to be told on devices that people look at",
		Description: "Webhooks are for programs: they get every event that they are registered for, at any hour.",
	}, func(_ context.Context, p parley.Principal, _ *struct{}) (*body[parley.Notify], error) {
		return ok(d.Wishes(p), nil)
	})
	route(s, huma.Operation{
		OperationID: "set-notifications", Method: http.MethodPut, Path: "/v1/notifications", Tags: tags, Summary: "Say what you want to be told on devices that people look at",
		Description: "The whole takes the place of what was there.",
	}, func(ctx context.Context, p parley.Principal, in *notifyInput) (*body[parley.Notify], error) {
		return ok(d.Wish(ctx, p, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "list-devices", Method: http.MethodGet, Path: "/v1/devices", Tags: tags, Summary: "List your devices",
		Description: "Browsers, apps on phones and programs that are told when a turn of yours ends or waits. Endpoints of browsers, tokens and secrets are not shown.",
	}, func(_ context.Context, p parley.Principal, _ *struct{}) (*body[deviceList], error) {
		return ok(deviceList{some(d.Devices(p))}, nil)
	})
	route(s, huma.Operation{
		OperationID: "add-device", Method: http.MethodPost, Path: "/v1/devices", Tags: tags, DefaultStatus: http.StatusCreated, Summary: "Register a device",
		Description: "A webhook gets a signed POST for each event (Standard Webhooks: Webhook-Id, Webhook-Timestamp, Webhook-Signature). Its id is the same for every attempt, so that the receiver can tell a repetition. " +
			"It is tried again for three days when it does not answer with 2xx; 410 pauses the device. The secret is in this answer and nowhere else. " +
			"A browser or an app that is registered already keeps its entry. A webhook's address is public, unless the operator allows another one (push.allow).",
	}, func(ctx context.Context, p parley.Principal, in *addDeviceInput) (*body[parley.Device], error) {
		return ok(d.Add(ctx, p, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "get-device", Method: http.MethodGet, Path: "/v1/devices/{id}", Tags: tags, Summary: "Read a device",
		Description: "A webhook's secret is not in it: only adding the device, or new_secret, shows it.",
	}, func(_ context.Context, p parley.Principal, in *DeviceParam) (*body[parley.Device], error) {
		return ok(d.Device(p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "update-device", Method: http.MethodPatch, Path: "/v1/devices/{id}", Tags: tags, Summary: "Change a device",
		Description: "With new_secret, a webhook's messages are signed with the old secret, too, for a day.",
	}, func(ctx context.Context, p parley.Principal, in *updateDeviceInput) (*body[parley.Device], error) {
		return ok(d.Update(ctx, p, in.ID, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "delete-device", Method: http.MethodDelete, Path: "/v1/devices/{id}", Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Remove a device",
		Description: "What was still to be sent to it is not sent.",
	}, func(ctx context.Context, p parley.Principal, in *DeviceParam) (*struct{}, error) {
		return nil, d.Remove(ctx, p, in.ID)
	})
	route(s, huma.Operation{
		OperationID: "test-device", Method: http.MethodPost, Path: "/v1/devices/{id}/test", Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Send a device a test",
		Description: "It has the form of any other message. A device that is paused gets none.",
	}, func(ctx context.Context, p parley.Principal, in *DeviceParam) (*struct{}, error) {
		return nil, d.Test(ctx, p, in.ID)
	})
	route(s, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/v1/deliveries", Tags: tags, Summary: "List what has not arrived at your devices",
		Description: "At most 500. What was given up is kept for 30 days, the newest 100.",
	}, func(ctx context.Context, p parley.Principal, in *deliveriesInput) (*body[deliveryList], error) {
		list, err := d.Deliveries(ctx, p, in.Dead)
		return ok(deliveryList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "retry-delivery", Method: http.MethodPost, Path: "/v1/deliveries/{id}/retry", Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Send it now",
		Description: "Also one that was given up. It has the same id as before.",
	}, func(ctx context.Context, p parley.Principal, in *DeliveryParam) (*struct{}, error) {
		return nil, d.Again(ctx, p, in.ID)
	})
	route(s, huma.Operation{
		OperationID: "delete-delivery", Method: http.MethodDelete, Path: "/v1/deliveries/{id}", Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Do not send it any more",
		Description: "The id is gone from the list. One that is being sent may still arrive.",
	}, func(ctx context.Context, p parley.Principal, in *DeliveryParam) (*struct{}, error) {
		return nil, d.Forget(ctx, p, in.ID)
	})
}
