/* The sales, as every part of the simulation knows them. */
#include "test/simulate/scene.h"

struct scene scene;
