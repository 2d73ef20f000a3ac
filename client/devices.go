package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// Devices lists what is told when turns of the user end or wait: browsers, apps on phones and
// programs.
func (c *Client) Devices(ctx context.Context) ([]parley.Device, error) {
	list, err := get[struct {
		Devices []parley.Device `json:"devices"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/devices"})
	return list.Devices, err
}

// AddDevice registers a device. The answer has a webhook's secret, which is not shown again.
func (c *Client) AddDevice(ctx context.Context, d parley.AddDevice) (parley.Device, error) {
	return get[parley.Device](ctx, c, call{method: http.MethodPost, path: "/v1/devices", body: d})
}

// UpdateDevice changes a device.
func (c *Client) UpdateDevice(ctx context.Context, id parley.DeviceID, u parley.UpdateDevice) (parley.Device, error) {
	return get[parley.Device](ctx, c, call{method: http.MethodPatch, path: p("/v1/devices/%s", id), body: u})
}

// RemoveDevice removes a device. What was still to be sent to it is not sent.
func (c *Client) RemoveDevice(ctx context.Context, id parley.DeviceID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/devices/%s", id)})
	return err
}

// TestDevice has a test sent to a device.
func (c *Client) TestDevice(ctx context.Context, id parley.DeviceID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodPost, path: p("/v1/devices/%s/test", id)})
	return err
}

// Deliveries lists what has not arrived at the user's devices: with dead, what was given up,
// else what is still tried.
func (c *Client) Deliveries(ctx context.Context, dead bool) ([]parley.Delivery, error) {
	a := call{method: http.MethodGet, path: "/v1/deliveries", query: url.Values{}}
	if dead {
		a.query.Set("dead", "true")
	}
	list, err := get[struct {
		Deliveries []parley.Delivery `json:"deliveries"`
	}](ctx, c, a)
	return list.Deliveries, err
}

// RetryDelivery has a message sent now, also one that was given up.
func (c *Client) RetryDelivery(ctx context.Context, id parley.DeliveryID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodPost, path: p("/v1/deliveries/%s/retry", id)})
	return err
}

// DropDelivery removes a message that has not arrived.
func (c *Client) DropDelivery(ctx context.Context, id parley.DeliveryID) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodDelete, path: p("/v1/deliveries/%s", id)})
	return err
}

// Notify returns what the user wants to be told on devices that people look at.
func (c *Client) Notify(ctx context.Context) (parley.Notify, error) {
	return get[parley.Notify](ctx, c, call{method: http.MethodGet, path: "/v1/notifications"})
}

// SetNotify says what the user wants to be told on devices that people look at.
func (c *Client) SetNotify(ctx context.Context, n parley.Notify) (parley.Notify, error) {
	return get[parley.Notify](ctx, c, call{method: http.MethodPut, path: "/v1/notifications", body: n})
}
