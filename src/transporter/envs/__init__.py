from transporter.envs.base import PixelEnv, Scene, Truth
from transporter.envs.registry import make, make_vector, scene
