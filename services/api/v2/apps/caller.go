package apps

import (
	"context"

	"github.com/carillon-timer/carillon/services/api/auth"
)

type callerOutput struct{ Body callerBody }

type callerBody struct {
	App        string `json:"app,omitempty" doc:"The app that the key is for. Absent where it is for every app."`
	Deployment bool   `json:"deployment" doc:"Whether it is for every app."`
	Scope      string `json:"scope" enum:"read,write,admin"`
}

// getCaller tells programs that act for people what to offer them.
func (*Resource) getCaller(ctx context.Context, _ *struct{}) (*callerOutput, error) {
	return &callerOutput{callerBody{
		App: auth.AppOf(ctx), Deployment: auth.OfDeployment(ctx),
		Scope: string(auth.ScopeOfCaller(ctx)),
	}}, nil
}
