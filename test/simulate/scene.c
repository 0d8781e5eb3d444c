/* What every part of the simulation knows of the sales. */
#include "test/simulate/scene.h"

struct scene scene;
